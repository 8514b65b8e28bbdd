"""The grader beside plain pytest on the same files, in one run: hand-ins of lab 01 per second.

    python benchmarks/grading.py [--count 24] [--rounds 3] [--write]

Of two classes: a mixed one (solutions, starters and mistakes in turn) and a perfect one
(solutions). In each round ours grades all of them, its first pytest's start included, then plain
pytest does, one process for each hand-in and as many at a time, without any isolation.

--write records the figures in benchmarks/results/grading.json.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grading import grade as core  # noqa: E402
from labkit.loading import choose_lab, find_labs  # noqa: E402
from labkit.mistakes import read_bank  # noqa: E402
from labkit.starters import copy_course  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "grading.json"
LAB = choose_lab("lab-01", find_labs())
WORKERS = os.cpu_count()
SECRET = "5e" * 32


def mixed(count):
    solution, starter = LAB.file("solution").read_text(), LAB.file("starter").read_text()
    bank, mistakes = LAB.file("mistakes").read_text(), read_bank(LAB).mistakes
    for n in range(count):
        wrong = f"{solution}\n\n{bank}\n\n{mistakes[n // 3 % len(mistakes)].source}"
        yield (solution, starter, wrong)[n % 3] + f"\n# {n}\n"


def perfect(count):
    for n in range(count):
        yield LAB.file("solution").read_text() + f"\n# {n}\n"


def ours(source):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "starter.py"
        file.write_text(source)
        return core.grade(file, LAB.name, secret=SECRET)["points"]["earned"]


_own = threading.local()


def plain_pytest(source):
    """In this thread's copy of the course, whose caches are warm."""
    if not hasattr(_own, "lab"):
        _own.folder = tempfile.TemporaryDirectory()
        (_own.lab,) = copy_course(Path(_own.folder.name), LAB)
    _own.lab.file("starter").write_text(source)
    scores = Path(_own.folder.name) / "scores.json"
    scores.unlink(missing_ok=True)
    words = [sys.executable, "-m", "pytest", "-q", _own.lab.path, "--scores", scores]
    environment = {**os.environ, "LAB_IMPL": "starter"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(words, cwd=_own.folder.name, env=environment, capture_output=True, timeout=60)
    return json.loads(scores.read_text())["labs"][0]["points"]["earned"]


def stop_idle():
    """The next round starts its pytests anew."""
    for waiting in core._idle.values():
        while waiting:
            waiting.pop().close()


def speed(sources, rounds):
    """Hand-ins per second of each, and how many times as fast ours is, by the median round."""
    times = {ours: [], plain_pytest: []}
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(plain_pytest, sources[:WORKERS]))
        for _ in range(rounds):
            stop_idle()
            scores = []
            for grader, seconds in times.items():
                started = time.perf_counter()
                scores.append(list(pool.map(grader, sources)))
                seconds.append(time.perf_counter() - started)
            assert scores[0] == scores[1], scores
    ratios = [other / own for own, other in zip(*times.values(), strict=True)]
    rates = {g.__name__: round(len(sources) / statistics.median(s), 2) for g, s in times.items()}
    return {"per_s": rates, "times_as_fast": [round(ratio, 2) for ratio in sorted(ratios)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = {of.__name__: speed(list(of(options.count)), options.rounds) for of in (mixed, perfect)}
    found |= {"count": options.count, "workers": WORKERS, "load": round(os.getloadavg()[0], 1)}
    found |= {"python": platform.python_version(), "date": datetime.now(UTC).date().isoformat()}
    print(json.dumps(found, indent=1))
    if options.write:
        RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
