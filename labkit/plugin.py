"""The pytest plugin of the course: which file is graded, the `lab` fixture, what can run here, and
the outcome of each claim. The scoreboard is drawn by labkit.scoreboard."""

import copy
import importlib.util
import inspect
import os
import re
import sys
from collections import deque
from fractions import Fraction
from pathlib import Path

import pytest

from labkit import loading
from labkit.loading import (
    LoadError,
    choose_lab,
    chosen_implementation,
    describe_exception,
    find_labs,
    load_module,
)
from labkit.scoreboard import Scoreboard

CALLS_KEPT = 64


class Hooks:
    """Hooks that other plugins (the grader, the mistakes bank) may implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_lab_implementation(self, lab, config):
        """The object behind the `lab` fixture; `lab` is a labkit.loading.Lab."""

    @pytest.hookspec
    def pytest_lab_calls(self, calls):
        """The calls a finished test made: (function, args, kwargs, outcome) each."""


def pytest_addhooks(pluginmanager):
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser):
    parser.getgroup("labs").addoption(
        "--scores", metavar="FILE", help="write the scoreboard as JSON (labkit.scoreboard)"
    )


def pytest_configure(config):
    try:
        which = chosen_implementation()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    labs = find_labs(config.rootpath)
    config.stash[STATE] = State(which, labs)
    for folder in {str(lab.path.parent) for lab in labs}:
        if folder not in sys.path:
            sys.path.append(folder)  # collectives.py; after everything that is installed
    # xdist hands its workers the arguments as typed, so each resolves them for itself
    config.args[:] = [_resolve(arg, config.invocation_params.dir, labs) for arg in config.args]
    if hasattr(config, "workerinput"):
        return
    scores = config.getoption("scores")
    if scores and not Path(scores).absolute().parent.is_dir():
        raise pytest.UsageError(f"--scores {scores}: there is no such folder")
    scoreboard = Scoreboard(labs, which, scores)
    config.pluginmanager.register(scoreboard, "lab-scoreboard")


STATE = pytest.StashKey()
CALLS = pytest.StashKey()


class State:
    """What one session shares: the chosen implementation and each lab's loaded file."""

    def __init__(self, which, labs):
        self.which = which
        self.by_folder = {lab.path: lab for lab in labs}
        self.implementations = {}
        self.out_of_time = set()  # (lab, test name)
        self.left_out = ""

    def lab_of(self, item):
        return self.by_folder.get(item.path.parent)


def _resolve(arg, folder, labs):
    """`lab-01`, `lab-01::test_name` -> the lab's folder or test; everything else as it is."""
    path, colons, rest = arg.partition("::")
    if not path.startswith("lab") or (Path(folder) / path).exists():
        return arg
    try:
        lab = choose_lab(path, labs)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    return f"{lab.file('test_lab')}::{rest}" if colons else str(lab.path)


# --- the `lab` fixture --------------------------------------------------------------------------


@pytest.fixture
def lab(request):
    """The implementation under test: its functions as attributes. Calls are recorded for hints."""
    state = request.config.stash[STATE]
    this = state.lab_of(request.node)
    if this is None:
        raise LookupError("the `lab` fixture is for test_lab.py in a lab's folder")
    if this not in state.implementations:
        hook = request.config.hook.pytest_lab_implementation
        try:
            state.implementations[this] = hook(lab=this, config=request.config)
        except LoadError as error:
            state.implementations[this] = error
    implementation = state.implementations[this]
    if isinstance(implementation, LoadError):
        raise implementation
    keeps = request.node.get_closest_marker("keeps_arguments") is not None
    recorder = Recorder(implementation, this if keeps else None)
    request.node.stash[CALLS] = recorder
    return recorder


@pytest.hookimpl(trylast=True)
def pytest_lab_implementation(lab, config):
    path = lab.file(config.stash[STATE].which)
    return Implementation(load_module(path), path)


class Implementation:
    """The functions and constants of one loaded file."""

    def __init__(self, module, path):
        self._module = module
        self._path = Path(path)

    def __getattr__(self, name):
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise AssertionError(
                f"{self._path.name} has no `{name}`; the tests call it by that name"
            ) from None


class Recorder:
    """An implementation whose calls are remembered: function, arguments as given, outcome.

    kept: the lab, if a call may not change its arguments.
    """

    def __init__(self, implementation, kept=None):
        self._implementation, self._kept = implementation, kept
        self._calls = deque(maxlen=CALLS_KEPT)
        self._running = None  # the call that has not come back: (function, args, kwargs)
        self._error = None  # what the last call raised

    def __getattr__(self, name):
        value = getattr(self._implementation, name)
        if not callable(value):
            return value

        def call(*args, **kwargs):
            given = _copied(args), _copied(kwargs)
            self._running = (name, *given)  # still so when a time limit ends the test
            try:
                result = value(*args, **kwargs)
            except Exception as error:
                self._calls.append((name, *given, ("raises", type(error).__name__)))
                self._running, self._error = None, error
                raise
            self._calls.append((name, *given, ("value", _copied(result))))
            self._running = self._error = None
            if self._kept:
                self._check_arguments(name, given, args, kwargs)
            return result

        return call

    def _check_arguments(self, name, given, args, kwargs):
        before, now = [*given[0], *given[1].values()], [*args, *kwargs.values()]
        for place, (one, other) in enumerate(zip(before, now, strict=True)):
            if _changed(one, other):
                argument = [*_positional(name, len(args), self._kept), *kwargs][place]
                raise AssertionError(
                    f"{_described((name, *given), self._kept)} changed its argument {argument}: "
                    "the caller still needs it. Work on a copy, or make a new one."
                )


def _changed(before, now):
    """Whether plain values, or lists, tuples, dicts and arrays of them, differ from their copy."""
    kind = type(before)
    if kind in (*PLAIN, list, tuple, dict) and type(now) is not kind:
        return True
    if kind in (list, tuple):
        return len(before) != len(now) or any(map(_changed, before, now))
    if kind is dict:
        return before.keys() != now.keys() or any(_changed(before[key], now[key]) for key in before)
    if hasattr(before, "dtype") and before.dtype != object:  # bit by bit: NaN equals itself
        return before.shape != now.shape or before.tobytes() != now.tobytes()
    return kind in PLAIN and now != before and before == before


PLAIN = (int, float, str, bool, type(None), Fraction)


def _copied(value):
    """copy.deepcopy for plain values, several times faster: thousands of calls are recorded."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        return kind(map(_copied, value))
    if kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    try:
        return copy.deepcopy(value)
    except Exception:  # a generator, say; the check judges what was returned
        return kind


# --- what can run here --------------------------------------------------------------------------

NOT_HERE = "not run here: "


def pytest_runtest_setup(item):
    if mark := item.get_closest_marker("gpu"):
        needed, found = (mark.args or (1,))[0], _cuda_devices()
        if found < needed:
            wanted = f"needs {needed} CUDA device(s), found {found}"
            _not_here(f"{wanted}; on such a machine: pytest -m gpu")
    if item.get_closest_marker("vllm") and vllm_python() is None:
        _not_here("needs vLLM: make vllm")
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        _not_here("needs Torch: make torch")


def _not_here(reason):
    pytest.skip(NOT_HERE + reason)


def _cuda_devices():
    if importlib.util.find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count()


def vllm_python():
    """The interpreter that has vLLM: $LAB_VLLM_PYTHON, this one, .venv-vllm; None without one."""
    if named := os.environ.get("LAB_VLLM_PYTHON"):
        return named
    if importlib.util.find_spec("vllm"):
        return sys.executable
    own = loading.ROOT / ".venv-vllm" / "bin" / "python"
    return str(own) if own.exists() else None


def pytest_ignore_collect(collection_path, config):
    """Where only the labs' packages are installed, tests/ is left out, and the end says so."""
    ours = collection_path.is_relative_to(config.rootpath / "tests")
    if ours and importlib.util.find_spec("hypothesis") is None:
        config.stash[STATE].left_out = "tests/ not run here: make test installs what it needs"
        return True
    return None


def pytest_terminal_summary(terminalreporter, config):
    if config.stash[STATE].left_out:
        terminalreporter.write_line("")
        terminalreporter.write_line(config.stash[STATE].left_out)


# --- outcomes -----------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if isinstance(collector, pytest.Module) and collector.path.name == "test_lab.py":
        if report.outcome == "passed" and not report.result:
            report.outcome = "failed"
            report.longrepr = f"{collector.path} has no tests: nothing would be graded"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    state = item.config.stash[STATE]
    lab = state.lab_of(item)
    if lab is None or item.path.name != "test_lab.py":
        return (yield)
    if item.config.getoption("tbstyle") == "auto":
        item.repr_failure = lambda excinfo, style=None: excinfo.exconly()  # the sentence is enough
    report = yield
    if report.when == "teardown" and not report.failed:
        return report
    if report.when == "setup" and report.passed:
        return report
    recorder = item.stash.get(CALLS, None) or Recorder(None)
    report.claim = _claim(item, call, report, lab, lab.file(state.which), recorder)
    item.config.hook.pytest_lab_calls(calls=list(recorder._calls))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """What waits for a check that ran out of time is not run: it would only run as long."""
    state = item.config.stash[STATE]
    lab, marks = state.lab_of(item), item.iter_markers("waits_for")
    name = getattr(item, "originalname", None)
    for other in (name, *(name for mark in marks for name in mark.args)):
        if (lab, other) in state.out_of_time:
            state.out_of_time.add((lab, name))
            pytest.fail(f"not run: {other} did not finish", pytrace=False)


def _claim(item, call, report, lab, path, recorder):
    """The claim's record, in plain values so that it survives the way from an xdist worker."""
    points = item.get_closest_marker("points")
    waits = item.get_closest_marker("waits_for")
    claim = {
        "lab": lab.name,
        "name": getattr(item, "originalname", None) or item.name,
        "text": (item.function.__doc__ or item.name).strip().split("\n")[0].rstrip("."),
        "points": points.args[0] if points else 0,
        "waits_for": list(waits.args) if waits else [],
        "outcome": "passed",
        "message": "",
        "hint": "",
        "crashed": False,
        "broken": "",
    }
    if report.passed:
        return claim
    error = call.excinfo.value
    text = " ".join(str(error).split("\nassert ")[0].split())
    if report.skipped:
        if text.startswith(("Skipped: " + NOT_HERE, NOT_HERE)):
            reason = text.partition(NOT_HERE)[2]
            return claim | {"outcome": "not_run", "message": reason}
        return claim | {"outcome": "failed", "message": f"the check was skipped: {text}"}
    claim["outcome"] = "failed"
    if isinstance(error, LoadError):
        return claim | {"message": text, "broken": text, "crashed": True}
    if isinstance(error, NotImplementedError):
        return claim | {"outcome": "todo", "message": text}
    own = call.excinfo.traceback[-1].path == path  # raised by the learner's own file
    if isinstance(error, AssertionError) and not own:
        claim["message"] = text or _source_of(call.excinfo)
    elif isinstance(error, pytest.fail.Exception):
        claim["message"] = text
        if limit := re.search(r"Timeout \(>([\d.]+)s\)", text):
            stuck = recorder._running and _described(recorder._running, lab) or "the check"
            item.config.stash[STATE].out_of_time.add((lab, claim["name"]))
            claim["message"] = (
                f"{stuck} did not finish within {float(limit[1]):g} s (an endless loop?); "
                "--timeout SECONDS sets the limit"
            )
            return claim | {"crashed": True}
    else:
        asserted = isinstance(error, AssertionError) and not text
        told = _source_of(call.excinfo) if asserted else describe_exception(error, path)
        if recorder._calls:  # the test's own code may stumble over what a call gave it
            after = "" if error is recorder._error else "after "
            told = f"{after}{_described(recorder._calls[-1][:3], lab)}: {told}"
        claim["message"] = told
        claim["crashed"] = True
    from labkit.mistakes import find_hint  # only a failure needs the bank

    try:
        claim["hint"] = find_hint(lab, recorder._calls)
    except Exception as problem:  # a broken bank must not hide the learner's own failure
        claim["message"] += f" (the mistakes bank cannot be read: {problem})"
    return claim


def _described(call, lab):
    """`row_parallel(x[5, 24], W[48, 24], num_ranks=2)`: its arguments named as in the solution."""
    from labkit.expect import describe_call
    from labkit.mistakes import read_bank

    name, args, kwargs = call
    try:
        signature = inspect.signature(getattr(read_bank(lab).solution, name))
        return describe_call(name, **signature.bind(*args, **kwargs).arguments)
    except Exception:  # a broken bank must not hide the learner's own failure
        return f"{name}(...)"


def _positional(name, count, lab):
    """What the solution calls the first `count` arguments of a function."""
    from labkit.mistakes import read_bank

    try:
        return list(inspect.signature(getattr(read_bank(lab).solution, name)).parameters)[:count]
    except Exception:  # as above
        return [f"number {place + 1}" for place in range(count)]


def _source_of(excinfo):
    entry = excinfo.traceback[-1]
    try:
        statement = str(entry.statement).strip()
    except IndexError:  # the file on the disk is shorter: another one was graded
        statement = "AssertionError"
    return f"{entry.path.name} line {entry.lineno + 1}: {statement}"


def pytest_report_teststatus(report):
    claim = getattr(report, "claim", None)
    if claim is None:
        return None
    if claim["outcome"] == "todo":
        return "todo", "t", ("TODO", {"yellow": True})
    if claim["outcome"] == "not_run":
        return "not run here", "-", ("NOT RUN HERE", {"yellow": True})
    return None
