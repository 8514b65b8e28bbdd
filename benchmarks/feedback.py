"""How long a learner waits for lab 01, starter and solution, against a floor.

The floor is plain pytest on one empty test that imports numpy, in a folder without our conftest.
The three commands take turns, so that a slow moment of the machine slows all of them.

    python benchmarks/feedback.py [--rounds 15] [--write]

prints medians and ratios; --write also records them in benchmarks/results/feedback.json.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "feedback.json"
EMPTY_TEST = "import numpy\n\n\ndef test_empty():\n    assert numpy.zeros(1).size == 1\n"


def wall_s(arguments, folder, lab_impl):
    environment = os.environ | {"LAB_IMPL": lab_impl}
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=False,  # a starter fails, that is its job
    )
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        Path(folder, "test_empty.py").write_text(EMPTY_TEST)
        commands = {
            "floor": ([], folder, "solution"),
            "solution": (["lab-01"], ROOT, "solution"),
            "starter": (["lab-01"], ROOT, "starter"),
        }
        times = {name: [] for name in commands}
        for round_number in range(options.rounds + 1):
            for name, command in commands.items():
                elapsed = wall_s(*command)
                if round_number:  # the first round warms the caches
                    times[name].append(elapsed)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(times[name], times["floor"], strict=True))
        for name in ("solution", "starter")
    }
    for name, median in medians.items():
        ratio = f"  {ratios[name]:.2f} x floor" if name in ratios else ""
        low, high = min(times[name]), max(times[name])
        print(f"{name:9} median {median:.3f} s  ({low:.3f} to {high:.3f}){ratio}")
    if options.write:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()
        record = {
            "command": f"python benchmarks/feedback.py --rounds {options.rounds} --write",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "git_commit": commit,
            "python": platform.python_version(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
            "median_s": medians,
            "ratio_to_floor": ratios,
            "times_s": times,
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
