"""The grader beside plain pytest and gradescope-utils: how fast, and how it grows.

    python benchmarks/grading.py [--growth 100 500 2000] [--write]

Submissions of lab 01 per second, of two classes: a mixed one (solutions, starters and mistakes in
turn) and a perfect one (solutions). In each round ours grades all of them, with hidden numbers,
starting its servers anew, and the other two grade a fifth of them: one process per submission, as
many at a time, without any isolation. With --growth instead: time and memory of the grader's
processes for so many submissions.

--write records the figures in benchmarks/results/grading.json.
"""

import argparse
import contextlib
import importlib.util
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
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grading.fingerprint import labs_by_prefix  # noqa: E402
from grading.limits import Limits  # noqa: E402
from grading.run import grade_locally  # noqa: E402
from grading.submissions import Submission  # noqa: E402
from labkit.claims import claims_in  # noqa: E402
from labkit.mistakes import read_bank  # noqa: E402
from labkit.starters import copy_course  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "grading.json"
LAB = labs_by_prefix()["lab-01"]
POINTS = {claim.name: claim.points for claim in claims_in(LAB)}
JOBS = os.cpu_count()

# gradescope-utils as its documentation shows it: unittest in the process that imports the file
GRADESCOPE = """
import sys, unittest
sys.path[:0] = {paths!r}
from gradescope_utils.autograder_utils.decorators import weight
from gradescope_utils.autograder_utils.json_test_runner import JSONTestRunner
import starter, test_lab

class Checks(unittest.TestCase):
    pass

for name, check in list(vars(test_lab).items()):
    if name.startswith("test_"):
        points = next(mark.args[0] for mark in check.pytestmark if mark.name == "points")
        method = lambda self, check=check: check(starter)
        method.__name__, method.__doc__ = name, check.__doc__
        setattr(Checks, name, weight(points)(method))

with open({results!r}, "w") as stream:
    JSONTestRunner(visibility="visible", stream=stream).run(
        unittest.defaultTestLoader.loadTestsFromTestCase(Checks))
"""


def mixed_sources(count):
    """Solutions, untouched starters and one mistake each of the bank, in turn."""
    solution, starter = LAB.file("solution").read_text(), LAB.file("starter").read_text()
    bank = LAB.file("mistakes").read_text()
    mistakes = read_bank(LAB).mistakes
    sources = []
    for n in range(count):
        if n % 3 == 0:
            sources.append(solution)
        elif n % 3 == 1:
            sources.append(starter)
        else:
            mistake = mistakes[n // 3 % len(mistakes)]
            sources.append(f"{solution}\n\n{bank}\n\n{mistake.source}")
    return [f"{source}\n# {n}\n".encode() for n, source in enumerate(sources)]


def perfect_sources(count):
    """Solutions that differ in a comment."""
    return [LAB.file("solution").read_bytes() + f"\n# {n}\n".encode() for n in range(count)]


CLASSES = {"mixed": mixed_sources, "perfect": perfect_sources}


# --- the three graders ----------------------------------------------------------------------------


def ours(sources):
    """Scores, in the order of the sources."""
    jobs = [(n, Submission(f"s{n}", "lab-01", "", source)) for n, source in enumerate(sources)]
    scores = [None] * len(jobs)
    engine = grade_locally(jobs, Limits(), b"benchmark's own secret", False, JOBS)
    for n, _, result, _ in engine:
        assert result["status"] == "graded", result["problem"]
        scores[n] = result["score"]
    return scores


_own = threading.local()


def course_with(source):
    """This thread's copy of the course, its caches warm, with `source` as the starter."""
    if not hasattr(_own, "lab"):
        _own.folder = tempfile.TemporaryDirectory(prefix="grading-bench-")
        (_own.lab,) = copy_course(Path(_own.folder.name), LAB)
    _own.lab.file("starter").write_bytes(source)
    return Path(_own.folder.name), _own.lab


def run_process(command, root):
    """Run a grader's process in its copy of the course."""
    environment = {**os.environ, "LAB_IMPL": "starter"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # its caches are to be warm
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )


def plain_pytest(source):
    """The points of the test cases that JUnit's report does not call failed or skipped."""
    root, lab = course_with(source)
    report = root / "junit.xml"
    report.unlink(missing_ok=True)
    run_process([sys.executable, "-m", "pytest", "-q", str(lab.path), f"--junitxml={report}"], root)
    try:
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return 0
    passed = {case.get("name") for case in cases if not len(case)}
    return sum(points for name, points in POINTS.items() if name in passed)


def gradescope_utils(source):
    """The sum of the scores in results.json."""
    root, lab = course_with(source)
    report, script = root / "results.json", root / "run_tests.py"
    report.unlink(missing_ok=True)
    paths = [str(lab.path), str(lab.path.parent), str(root)]
    script.write_text(GRADESCOPE.format(paths=paths, results=str(report)))
    run_process([sys.executable, str(script)], root)
    try:
        return sum(test["score"] for test in json.loads(report.read_text())["tests"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


# --- what is measured -----------------------------------------------------------------------------


def speed(sources, rounds):
    """Seconds per submission of each grader, per round."""
    few = sources[: max(6, len(sources) // 5)]
    times = {"grading": [], "pytest": [], "gradescope-utils": []}
    scores = {name: {} for name in times}
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(plain_pytest, few[:JOBS]))  # warms the caches of their copies of the course
        for number in range(rounds):
            started = time.perf_counter()
            scores["grading"] = dict(zip(sources, ours(sources), strict=True))
            times["grading"].append((time.perf_counter() - started) / len(sources))
            for name, grader in (("pytest", plain_pytest), ("gradescope-utils", gradescope_utils)):
                started = time.perf_counter()
                scores[name] = dict(zip(few, pool.map(grader, few), strict=True))
                times[name].append((time.perf_counter() - started) / len(few))
            line = ", ".join(f"{name} {1 / values[-1]:.1f}/s" for name, values in times.items())
            print(f"round {number + 1}: {line}", flush=True)
    # Plain pytest compares with arguments that a submission may have bent; ours does not.
    pairs = [(scores["grading"][source], score) for source, score in scores["pytest"].items()]
    assert all(own <= other for own, other in pairs), f"ours gives more than plain pytest: {pairs}"
    differ = sum(own != other for own, other in pairs)
    result = {
        "submissions": len(sources),
        "jobs": JOBS,
        "compared": len(pairs),
        "scored_lower": differ,
    }
    for name, values in times.items():
        result[name] = {"per_s": round(1 / statistics.median(values), 2)}
    for name in ("pytest", "gradescope-utils"):
        ratios = [other / own for own, other in zip(times["grading"], times[name], strict=True)]
        result[name]["ours_is_faster_by"] = round(statistics.median(ratios), 2)
        result[name]["spread"] = [round(min(ratios), 2), round(max(ratios), 2)]
    return result


class Memory(threading.Thread):
    """The largest sum of proportional memory of this process and all below it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak_mib, self.done = 0.0, threading.Event()

    def run(self):
        import psutil

        own = psutil.Process()
        while not self.done.wait(0.5):
            total = 0
            for process in (own, *own.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_full_info().pss
            self.peak_mib = max(self.peak_mib, total / (1 << 20))


def growth(sizes):
    rows = []
    for count in sizes:
        memory = Memory()
        memory.start()
        sources = mixed_sources(count)  # held here all the while, as a run holds them
        started = time.perf_counter()
        ours(sources)
        seconds = time.perf_counter() - started
        memory.done.set()
        memory.join()
        rows.append(
            {
                "submissions": count,
                "seconds": round(seconds, 1),
                "ms_per_submission": round(1000 * seconds / count, 1),
                "peak_mib": round(memory.peak_mib),
                "of_it_sources_mib": round(sum(map(len, sources)) / (1 << 20)),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", type=int, nargs="+", metavar="SUBMISSIONS")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    for package in ("gradescope_utils", "psutil"):
        if importlib.util.find_spec(package) is None:
            parser.error(f"{package} is not installed; `make grading-bench` does it")
    if options.growth:
        what, found = "growth", {"sizes": growth(options.growth)}
    else:
        classes = {name: sources(options.count) for name, sources in CLASSES.items()}
        what, found = "speed", {name: speed(own, options.rounds) for name, own in classes.items()}
        print(json.dumps(found, indent=1))
    if options.write:
        found |= {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python "
            + platform.python_version(),
        }
        record = json.loads(RESULTS.read_text()) | {what: found}
        RESULTS.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        print(f"wrote {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
