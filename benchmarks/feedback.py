"""How long a learner waits for a lab's screen, against a floor.

The floor is plain pytest on one empty test that imports numpy, in a folder without our conftest
and, like ours, without the plugin of hypothesis. (It collects garbage at its end, which ours does
not.) Each lab is timed as starter and as solution, without Torch's and vLLM's checks. The commands
take turns, so that a slow moment of the machine slows all of them.

    python benchmarks/feedback.py [--rounds 15] [--write]

prints medians and ratios; --write also records them in benchmarks/results/feedback.json.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from labkit.loading import find_labs  # noqa: E402
from labkit.provenance import provenance  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "feedback.json"
EMPTY_TEST = "import numpy\n\n\ndef test_empty():\n    assert numpy.zeros(1).size == 1\n"


def wall_s(arguments, folder, lab_impl):
    environment = os.environ | {"LAB_IMPL": lab_impl}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a learner's second run finds it all compiled
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
        Path(folder, "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest\n")
        Path(folder, "test_empty.py").write_text(EMPTY_TEST)
        commands = {"floor": ([], folder, "solution")}
        for lab in [lab.prefix for lab in find_labs()]:
            for which in ("starter", "solution"):
                arguments = [lab, "-m", "not vllm and not torch and not gpu"]
                commands[f"{lab} {which}"] = (arguments, ROOT, which)
        times = {name: [] for name in commands}
        for round_number in range(options.rounds + 1):
            for name, command in commands.items():
                elapsed = wall_s(*command)
                if round_number:  # the first round warms the caches
                    times[name].append(elapsed)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(times[name], times["floor"], strict=True))
        for name in times
        if name != "floor"
    }
    for name, median in medians.items():
        ratio = f"  {ratios[name]:.2f} x floor" if name in ratios else ""
        low, high = min(times[name]), max(times[name])
        print(f"{name:16} median {median:.3f} s  ({low:.3f} to {high:.3f}){ratio}")
    if options.write:
        command = f"python benchmarks/feedback.py --rounds {options.rounds} --write"
        found = {"median_s": medians, "ratio_to_floor": ratios, "times_s": times}
        record = provenance(command, ROOT, [], ("numpy", "pytest"), **found)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
