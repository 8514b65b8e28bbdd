"""A copy of the course in a temporary folder, to break on purpose."""

import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from labkit.loading import Lab, sha256
from labkit.starters import copy_course
from tests import warm_pytest

ROOT = Path(__file__).resolve().parent.parent
LABS = Path("phase-10-distributed-inference/labs")
LAB_01 = LABS / "lab-01-tp-sharding-math"


class NeedsLinux(pytest.Module):
    """Tests of the grader, not even imported elsewhere: its cells are Linux's."""

    def collect(self):
        pytest.skip(f"not run here: the grader needs Linux, this is {sys.platform}")


def pytest_configure(config):
    config.addinivalue_line("markers", "isolation: needs a cell for a hand-in; CI never skips")


def calls_made(function, *arguments):
    """How many calls `function` makes, and what it returns: a cost that no busy machine changes."""
    made = 0

    def count(frame, event, argument):
        nonlocal made
        made += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        answer = function(*arguments)
    finally:
        sys.setprofile(before)
    return made, answer


@functools.cache
def why_no_cell():
    from grading.cell import Cell, Limits, NoCell

    try:
        Cell(Lab(ROOT / LAB_01), Limits()).close()
    except NoCell as error:
        return str(error)
    return ""


def pytest_runtest_setup(item):
    if item.get_closest_marker("isolation") and not os.environ.get("CI") and why_no_cell():
        pytest.skip(f"not run here: needs {why_no_cell()}")


def pytest_pycollect_makemodule(module_path, parent):
    if sys.platform != "linux" and module_path.name.startswith("test_grading_"):
        return NeedsLinux.from_parent(parent, path=module_path)


# Files that share something costly run on one worker of xdist: ranks fill the cores, book and
# browser are made once, and so is the fixture of a module. The longest come first. By file, for
# xdist 3.8 is blind to its own marks under pytest 9.2 (github.com/pytest-dev/pytest-xdist, 1386).
GROUPS = {
    "ranks": r"lab-02[^/]*/test_lab|test_lab0[25]_live|test_toy_(equality|failures|profile)",
    "book": r"test_book_(browser|controls|links|python|widgets)",
    "corpus": r"test_grading_corpus",
    "dask": r"test_grading_dask",
    "hidden": r"test_grading_(hidden|grade)",
    "commands": r"test_grading_commands",
    "idioms": r"test_grading_idioms",
    "tools": r"test_lab03_tools",
    "place": r"test_capstone_place",
}


def group_of(nodeid):
    file = nodeid.partition("::")[0]
    return next((name for name, files in GROUPS.items() if re.search(files, file)), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """One more than there are processors: some tests wait for time-outs, engines, dead ranks."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid) or nodeid

    if config.getvalue("dist") == "loadgroup":
        config.option.loadscopereorder = False
        return Groups(config, log)


def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):
        order = [*GROUPS, None]
        items.sort(key=lambda item: order.index(group_of(item.nodeid)))


@dataclass
class Run:
    """What a command printed, and its exit status."""

    status: int
    text: str


class Course:
    """A copy of the machinery and one lab alone, under `root`."""

    def __init__(self, root: Path, lab: Path = LAB_01):
        self.root = root
        (copy,) = copy_course(root, Lab(ROOT / lab))
        self.lab, self.starter = copy.path, copy.file("starter")

    def add_lab(self, name: str, solution: str, test: str) -> Path:
        """A second lab, tiny, whose starter equals its solution."""
        folder = self.root / LABS / name
        folder.mkdir()
        for file in ("solution.py", "starter.py"):
            (folder / file).write_text(solution, encoding="utf-8")
        (folder / "test_lab.py").write_text(test, encoding="utf-8")
        return folder

    def run(self, *arguments, cwd=None, timeout_s=100, **environment) -> Run:
        """python ARGUMENTS in the copy; a pipe, so no colour."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd or self.root,
            env=_clean() | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        return Run(done.returncode, done.stdout)

    def pytest(self, *arguments, impl=None, cwd=None, **environment) -> Run:
        """python -m pytest ARGUMENTS, by a fork where there are some: half of it is imports."""
        if impl is not None:
            environment["LAB_IMPL"] = impl
        if sys.platform != "linux":
            return self.run("-m", "pytest", *arguments, cwd=cwd, **environment)
        with tempfile.NamedTemporaryFile() as out:
            environment = _clean() | environment
            run = warm_pytest.start(cwd or self.root, arguments, environment, out.name)
            run.join(100)
            run.kill()
            run.join()
            return Run(run.exitcode, out.read().decode())


def _clean():
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LAB_"))}


@pytest.fixture
def open_folder():
    """A temporary folder that others may enter; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def nobody():
    """`with nobody():` is done by a user whom permissions bind, also if root runs the tests."""

    @contextlib.contextmanager
    def bound():
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(user)

    return bound


@pytest.fixture(scope="module")
def without_engines():
    """As if neither vLLM nor Torch were here, whose checks start processes; for one file only."""
    with pytest.MonkeyPatch.context() as here:
        here.setenv("LAB_VLLM_PYTHON", "none")
        here.setenv("LAB_TORCH", "none")
        yield


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path)


@pytest.fixture(scope="session")
def read_only_course(tmp_path_factory):
    """One copy for the tests that change nothing."""
    return Course(tmp_path_factory.mktemp("course"))


def python(*words, cwd=ROOT, text=None, timeout=120, **environment):
    """What `python words...` says in a folder; LAB_IMPL is not set unless the test names it."""
    own = {name: value for name, value in os.environ.items() if name != "LAB_IMPL"}
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=own | environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def as_recorded(folder):
    """The provenance of a capture's folder, which holds the files that it names and no other."""
    record = json.loads((folder / "provenance.json").read_text())
    files = {path.name: sha256(path) for path in folder.iterdir() if path.name != "provenance.json"}
    assert record["sha256"] == files, folder.name
    return record


def processes_of(*folders):
    """The processes that have a log, or a word of their command, in one of the folders."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            texts = [os.readlink(file) for file in (process / "fd").glob("[12]")]
            texts.append((process / "cmdline").read_text(errors="replace"))
            if any(str(folder) in text for folder in folders for text in texts):
                found.add(process.name)
    return found


@pytest.fixture
def kill_rank_1(tmp_path):
    """For `on_start` of a live run in tmp_path: rank 1 dies as soon as the ranks have met."""

    def when_started(pids):
        def when_connected():
            log, until = tmp_path / "rank-1.log", time.monotonic() + 240
            log.touch()  # the rank itself opens it a moment later
            while "Starting to load model" not in log.read_text() and time.monotonic() < until:
                time.sleep(0.02)
            os.kill(pids[1], signal.SIGKILL)

        threading.Thread(target=when_connected, daemon=True).start()

    return when_started
