"""What the course's own tests cost: processor and wall seconds of each test file.

    python -m pytest -n auto --dist loadgroup -p benchmarks.timings [--record]

prints the costliest files beside what results/tests.json holds of them; --record writes it anew.
Wall time says little on a busy machine; processor time counts a test and every process of its
that was waited for (a browser is waited for by the last of its tests; what tests/warm_pytest.py
forks, 0.3 s for each `pytest` in a copy of the course, by none).
"""

import json
import resource
import time
from collections import defaultdict
from pathlib import Path

import pytest

from labkit.provenance import git_commit, hardware

RESULTS = Path(__file__).resolve().parent / "results" / "tests.json"
began, used_s = time.perf_counter(), 0.0  # used_s: by this process, when its last report was made
costs = defaultdict(lambda: [0.0, 0.0])  # test -> cpu_s, wall_s


def pytest_addoption(parser):
    parser.addoption("--record", action="store_true", help="write benchmarks/results/tests.json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Each report (set up, call, tear down) says what was used since the one before."""
    global used_s
    report = yield
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    before, used_s = used_s, sum(times.ru_utime + times.ru_stime for times in usage)
    report.user_properties.append(("cpu_s", used_s - before))
    return report


def pytest_runtest_logreport(report):
    name = report.nodeid.partition("@")[0]
    for place, seconds in enumerate((dict(report.user_properties)["cpu_s"], report.duration)):
        costs[name][place] += seconds


def pytest_terminal_summary(terminalreporter, config):
    files = defaultdict(lambda: {"checks": 0, "cpu_s": 0.0, "wall_s": 0.0})
    for name, seconds in costs.items():
        file = files[name.partition("::")[0]]
        file["checks"] += 1
        for column, one in zip(("cpu_s", "wall_s"), seconds, strict=True):
            file[column] = round(file[column] + one, 2)
    record = {"git_commit": git_commit(), "hardware": hardware()}
    record["wall_s"] = round(time.perf_counter() - began, 1)
    record["files"] = dict(sorted(files.items(), key=lambda one: -one[1]["cpu_s"]))
    slowest = sorted(costs, key=lambda name: -costs[name][0])[:20]
    record["slowest"] = {name: [round(x, 2) for x in costs[name]] for name in slowest}
    known = json.loads(RESULTS.read_text())["files"] if RESULTS.exists() else {}
    for name, file in list(record["files"].items())[:20]:
        before = known.get(name, {}).get("cpu_s", "new")
        terminalreporter.write_line(f"{file['cpu_s']:7.1f} cpu s, recorded {before}: {name}")
    if config.getoption("record"):
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
