"""The grader beside plain pytest and gradescope-utils: how fast, how it grows, who can be forged.

    python benchmarks/grading.py [speed] [growth] [forged] [--write]

speed: submissions of lab 01 per second, of two classes: a mixed one (solutions, starters and
    mistakes in turn) and a perfect one (solutions). In each round ours grades all of them, with
    hidden numbers, starting its servers anew, and the other two grade a fifth of them: one process
    per submission, as many at a time, without any isolation.
growth: time and memory of the grader's processes for 100 to 2,000 submissions.
forged: the corpus against the other two, which run it in their own process. A submission is forged
    when it scores more than its header says it deserves. They run inside bubblewrap, for this
    machine's sake; cases that would only exhaust it are left out.

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
from grading.limits import MIB, Limits  # noqa: E402
from grading.run import grade_locally  # noqa: E402
from grading.submissions import Submission, _text_or_problem  # noqa: E402
from labkit.claims import claims_in  # noqa: E402
from labkit.mistakes import read_bank  # noqa: E402
from labkit.starters import copy_course  # noqa: E402
from tests.hostile.corpus import read_cases  # noqa: E402

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
            sources.append(f"{solution}\n\n{bank}\n\n{mistake.replaces} = {mistake.name}\n")
    return [f"{source}\n# {n}\n".encode() for n, source in enumerate(sources)]


def perfect_sources(count):
    """Solutions that differ in a comment."""
    return [LAB.file("solution").read_bytes() + f"\n# {n}\n".encode() for n in range(count)]


CLASSES = {"mixed": mixed_sources, "perfect": perfect_sources}


# --- the three graders ----------------------------------------------------------------------------


def ours(sources, limits=None):
    """Scores, in the order of the sources."""
    jobs = [(n, Submission(f"s{n}", "lab-01", "", source)) for n, source in enumerate(sources)]
    scores = [None] * len(jobs)
    engine = grade_locally(jobs, limits or Limits(), b"benchmark's own secret", False, JOBS)
    for n, _, result, _ in engine:
        assert result["status"] == "graded", result["problem"]
        scores[n] = result["score"]
    return scores


class Copy:
    """A copy of the course, in which submissions take the starter's place one after the other."""

    def __init__(self, folder):
        self.root = Path(folder, "course")
        self.root.mkdir()
        (copy,) = copy_course(self.root, LAB)
        self.lab = copy.path
        self.paths = [str(self.lab), str(self.lab.parent), str(self.root)]


def run_process(command, copy, confined):
    """Run a grader's process; confined, it may write to its copy of the course and nowhere else."""
    environment = {**os.environ, "LAB_IMPL": "starter"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # its caches are to be warm
    if confined:
        inner = " ".join(f"'{word}'" for word in command) + "; sleep 2"  # time for a late daemon
        command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
        command += ["--ro-bind", "/", "/"]
        command += ["--dev", "/dev", "--proc", "/proc"]
        command += ["--bind", str(copy.root.parent), str(copy.root.parent)]
        command += ["prlimit", f"--as={6 << 30}", "--cpu=40", "--nproc=4000", f"--fsize={64 << 20}"]
        command += ["sh", "-c", inner]
    done = subprocess.Popen(
        command,
        cwd=copy.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        done.wait(60)
    except subprocess.TimeoutExpired:
        done.kill()
        done.wait()


_own = threading.local()


@contextlib.contextmanager
def course_with(source, fresh):
    """A copy of the course with `source` in it: a fresh one, or this thread's, its caches warm."""
    with contextlib.ExitStack() as stack:
        if fresh or not hasattr(_own, "copy"):
            folder = tempfile.TemporaryDirectory(prefix="grading-bench-")
            copy = Copy(folder.name)
            if fresh:
                stack.enter_context(folder)
            else:
                _own.folder, _own.copy = folder, copy
        else:
            copy = _own.copy
        (copy.lab / "starter.py").write_bytes(source)
        yield copy


def plain_pytest(source, confined=False):
    """The points of the test cases that JUnit's report does not call failed or skipped."""
    with course_with(source, confined) as copy:
        report = copy.root.parent / "junit.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", str(copy.lab), f"--junitxml={report}"]
        run_process(command, copy, confined)
        try:
            cases = list(ElementTree.parse(report).getroot().iter("testcase"))
        except (OSError, ElementTree.ParseError):
            return 0
        passed = {case.get("name") for case in cases if not len(case)}
    return sum(points for name, points in POINTS.items() if name in passed)


def gradescope_utils(source, confined=False):
    """The sum of the scores in results.json."""
    with course_with(source, confined) as copy:
        report = copy.root.parent / "results.json"
        report.unlink(missing_ok=True)
        script = copy.root / "run_tests.py"
        script.write_text(GRADESCOPE.format(paths=copy.paths, results=str(report)))
        run_process([sys.executable, str(script)], copy, confined)
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
        while not self.done.wait(0.5):
            total, pending = 0, [os.getpid()]
            while pending:
                pid = pending.pop()
                try:
                    for task in Path(f"/proc/{pid}/task").iterdir():
                        pending += map(int, (task / "children").read_text().split())
                    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                    total += next(
                        int(x.split()[1]) for x in text.splitlines() if x.startswith("Pss:")
                    )
                except (OSError, StopIteration):
                    continue
            self.peak_mib = max(self.peak_mib, total / 1024)


def growth(sizes):
    rows = []
    for count in sizes:
        memory = Memory()
        memory.start()
        started = time.perf_counter()
        ours(mixed_sources(count))
        seconds = time.perf_counter() - started
        memory.done.set()
        memory.join()
        rows.append(
            {
                "submissions": count,
                "seconds": round(seconds, 1),
                "ms_per_submission": round(1000 * seconds / count, 1),
                "peak_mib": round(memory.peak_mib),
            }
        )
        print(rows[-1], flush=True)
    return rows


def forged():
    """Per case: what it deserves, and what each grader gives."""
    cases = [case for case in read_cases() if case.header.get("live") != "no"]
    cases = [case for case in cases if case.lab == LAB.prefix]
    sources = [case.source(LAB) for case in cases]
    limits = Limits(check_s=4, submission_s=8, memory_bytes=300 * MIB)
    readable = [_text_or_problem(source)[0] for source in sources]
    table = {case.name: {"deserves": case.deserves()[1]} for case in cases}
    graded = [(c, s) for c, s in zip(cases, readable, strict=True) if s is not None]
    for (case, _), score in zip(graded, ours([s for _, s in graded], limits), strict=True):
        table[case.name]["grading"] = score
    with ThreadPoolExecutor(JOBS) as pool:
        for name, grader in (("pytest", plain_pytest), ("gradescope-utils", gradescope_utils)):
            found = pool.map(lambda source, grader=grader: grader(source, confined=True), sources)
            for case, score in zip(cases, found, strict=True):
                table[case.name][name] = score
    names = ("grading", "pytest", "gradescope-utils")
    print(f"{'case':32} {'deserves':>9} " + " ".join(f"{name:>17}" for name in names))
    counts = dict.fromkeys(names, 0)
    for case, row in table.items():
        cells = []
        for name in names:
            score = row.get(name, 0)
            over = score > row["deserves"]
            counts[name] += over
            cells.append(f"{score:g}{' FORGED' if over else ''}")
        print(f"{case:32} {'<=' + str(row['deserves']):>9} " + " ".join(f"{c:>17}" for c in cells))
    print(f"{len(cases)} cases; forged: " + ", ".join(f"{n} {c}" for n, c in counts.items()))
    return {"cases": len(cases), "forged": counts, "scores": table}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=[], help="speed, growth, forged (default: all)")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 500, 2000])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.what) - {"speed", "growth", "forged"}:
        parser.error(f"{unknown.pop()} is not one of speed, growth, forged")
    if importlib.util.find_spec("gradescope_utils") is None:
        parser.error("gradescope-utils is not installed; `make grading-bench` does it")
    what = options.what or ["speed", "growth", "forged"]
    found = {}
    if "speed" in what:
        found["speed"] = {
            name: speed(sources(options.count), options.rounds) for name, sources in CLASSES.items()
        }
        print(json.dumps(found["speed"], indent=1))
    if "growth" in what:
        found["growth"] = growth(options.sizes)
    if "forged" in what:
        found["forged"] = forged()
    if options.write:
        known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        known |= found | {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python "
            + platform.python_version(),
        }
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        print(f"wrote {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
