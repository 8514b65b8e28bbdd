"""The pytest plugin of the course: its options, the `lab` fixture, and a claim for each check.

Which file is graded stands in labkit.loading, what can run here in labkit.needs, what a check
claims in labkit.claims, what it called in labkit.recorder, the screen in labkit.scoreboard, what
all of them share in labkit.session.
"""

import importlib.util
import inspect
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from labkit.claims import claim_of, claims_in, outcome_of
from labkit.loading import (
    Implementation,
    LoadError,
    choose_lab,
    chosen_implementation,
    find_labs,
    load_module,
)
from labkit.mistakes import find_hint, read_bank
from labkit.mistakes.further import Apart, further_calls, run_apart
from labkit.needs import NOT_HERE, missing
from labkit.recorder import Recorder
from labkit.scoreboard import Scoreboard
from labkit.session import RECORDER, STATE, State
from labkit.tasks import hint, task_of_check, tasks_of

CHECK_S = 10  # a check of a lab takes far less; an endless loop should not cost a minute
PRINTED_LINES = 8


class Hooks:
    """What other plugins (the grader, the mistakes bank) may implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_lab_implementation(self, lab, config):
        """The object behind the `lab` fixture; `lab` is a labkit.loading.Lab."""


def pytest_addhooks(pluginmanager):
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser):
    add = parser.getgroup("labs").addoption
    add("--scores", metavar="FILE", help="write the scoreboard as JSON: --scores=scores.json")
    add("--task", type=int, action="append", metavar="N", help="only the checks of task N")
    add("--hint", metavar="FUNCTION[=LEVEL]", help="1 an idea, 2 a sketch, 3 the formula; no test")
    add("--at-hand", action="store_true", help="show only the task at hand")
    add("--call", action="store_true", help="show the call of a failure with all of its numbers")
    add(
        "--open-tasks-ok",
        action="store_true",
        help="exit status 0 when nothing failed and the rest is still to be written",
    )


def pytest_cmdline_main(config):
    wanted = config.getoption("hint")
    if wanted is None:
        return None
    labs = find_labs(config.rootpath)  # pytest_configure has not run yet
    named = [_resolve(arg, config.invocation_params.dir, labs) for arg in config.args]
    labs = [lab for lab in labs if str(lab.path) in named]
    if len(labs) != 1:
        raise pytest.UsageError("--hint needs one lab: pytest lab-01 --hint row_parallel")
    try:
        print(hint(labs[0], wanted))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    return 0


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
    folder = config.invocation_params.dir
    config.args[:] = [test for arg in config.args for test in _tests(arg, folder, labs)]
    if which == "starter":  # a warning, as of NaN, would stand above the screen or be counted below
        config.addinivalue_line("filterwarnings", "ignore")
    if hasattr(config, "workerinput"):
        return
    scores = config.getoption("scores")
    if scores and not Path(scores).absolute().parent.is_dir():
        raise pytest.UsageError(f"--scores {scores}: there is no such folder")
    scoreboard = Scoreboard(labs, which, scores)
    config.pluginmanager.register(scoreboard, "lab-scoreboard")


def _resolve(arg, folder, labs):
    """`lab-01`, `lab-01::test_name` -> the lab's folder or test; everything else as it is."""
    path, colons, rest = arg.partition("::")
    path = path if (Path(folder) / path).exists() else path.lower()
    if not path.startswith(("lab", "capstone")) or (Path(folder) / path).exists():
        return arg
    try:
        lab = choose_lab(path, labs)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    return f"{lab.file('test_lab')}::{rest}" if colons else str(lab.path)


def _tests(arg, folder, labs):
    """What `_resolve` says; `lab-01::test_row` is each check whose name begins so."""
    whole = _resolve(arg, folder, labs)
    path, colons, rest = whole.partition("::")
    lab = next((lab for lab in labs if colons and path == str(lab.file("test_lab"))), None)
    names = [claim.name for claim in claims_in(lab)] if lab else []
    chosen = [name for name in names if name.startswith(rest)]
    if not lab or rest.partition("[")[0] in names:
        return [whole]
    if not chosen:
        raise pytest.UsageError(
            f"{lab.prefix} has no check {rest}; -k FUNCTION runs those of one function of "
            + ", ".join(tasks_of(lab))
        )
    return [f"{path}::{name}" for name in chosen]


# --- the `lab` fixture --------------------------------------------------------------------------


@pytest.fixture
def lab(request):
    """The implementation under test: its functions as attributes. Calls are recorded."""
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
    recorder = recorder_of(this, implementation)
    request.node.stash[RECORDER] = recorder
    return recorder


def recorder_of(lab, implementation):
    """A Recorder whose words about a call are those of the checks of this lab."""

    def reference(function):
        try:
            found = getattr(read_bank(lab).solution, function, None)
        except Exception:  # such as a broken bank, which must not hide the learner's own failure
            return None
        return found if inspect.isfunction(found) else None

    return Recorder(implementation, reference)


@pytest.hookimpl(trylast=True)
def pytest_lab_implementation(lab, config):
    path = lab.file(config.stash[STATE].which)
    return Implementation(load_module(path), path)


# --- what is run --------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    state, wanted = config.stash[STATE], config.getoption("task")
    state.items = list(items)
    for item in items:
        if state.is_check(item) and config.getoption("timeout", None) is None:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(CHECK_S))
    if wanted:
        kept = [item for item in items if _task_of(state, item) in wanted]
        numbers = sorted({task for item in items if (task := _task_of(state, item))})
        if numbers and (unknown := [task for task in wanted if task not in numbers]):
            told = f"--task {unknown[0]}: the tasks are {numbers[0]} to {numbers[-1]}"
            raise pytest.UsageError(told)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def _task_of(state, item):
    task = task_of_check(state.lab_of(item), item.originalname) if state.is_check(item) else None
    return task.number if task else None


def pytest_runtest_setup(item):
    try:
        reason = missing(item)
    except ValueError as error:
        pytest.fail(str(error), pytrace=False)
    if reason:
        pytest.skip(NOT_HERE + reason)


def pytest_ignore_collect(collection_path, config):
    """Where only the labs' packages are installed, tests/ is left out; who asked is told."""
    ours = collection_path.is_relative_to(config.rootpath / "tests")
    if ours and importlib.util.find_spec("hypothesis") is None:
        config.stash[STATE].left_out = "tests/ not run here: make test installs what it needs"
        return True
    return None


def pytest_terminal_summary(terminalreporter, config):
    asked = any("tests" in Path(arg).parts for arg in config.args)
    everything = config.args_source is not pytest.Config.ArgsSource.ARGS
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ").removeprefix(NOT_HERE)
        for report in terminalreporter.stats.get("skipped", [])
    )
    state, word = config.stash[STATE], config.getoption("keyword")
    labs = {state.lab_of(item) for item in state.items if state.is_check(item)}
    if word and labs and len(terminalreporter.stats.get("deselected", [])) == len(state.items):
        functions = ", ".join(name for lab in labs for name in tasks_of(lab))
        terminalreporter.write_line(f"-k {word!r} selects no check. The functions: {functions}")
    for check, call in state.calls_to_show.items():
        terminalreporter.write_line(f"\n{check} called\n{call}")
    for reason, count in reasons.most_common():
        tests = f"{count} test{'s' * (count > 1)}"
        terminalreporter.write_line(f"{NOT_HERE}{tests}: {reason}")
    if state.left_out and (asked or everything):
        terminalreporter.write_line(f"\n{state.left_out}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if isinstance(collector, pytest.Module) and collector.path.name == "test_lab.py":
        if report.outcome == "passed" and not report.result:
            report.outcome = "failed"
            report.longrepr = f"{collector.path} has no tests: nothing would be graded"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """A check that waits for one that timed out is not run: it would time out too."""
    state = item.config.stash[STATE]
    lab, marks = state.lab_of(item), item.iter_markers("waits_for")
    name = getattr(item, "originalname", None)
    for other in (name, *(name for mark in marks for name in mark.args)):
        if (lab, other) in state.out_of_time:
            state.out_of_time.add((lab, name))
            pytest.fail(f"not run: {other} did not finish", pytrace=False)


# --- what came of it ----------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    state = item.config.stash[STATE]
    if not state.is_check(item):
        return (yield)
    lab = state.lab_of(item)
    if item.config.getoption("tbstyle") == "auto":
        item.repr_failure = lambda excinfo, style=None: excinfo.exconly()  # the sentence is enough
    report = yield
    if report.when == "teardown" and not report.failed:
        return report
    if report.when == "setup" and report.passed:
        return report
    recorder = item.stash.get(RECORDER, None) or Recorder(None)
    outcome = outcome_of(report, call.excinfo, lab.file(state.which), recorder)
    report.claim = {"lab": lab.name, **claim_of(item), **outcome}
    report.claim |= {"hint": "", "printed": "", "drawing": ""}
    if outcome["outcome"] == "failed":
        # below it a time limit prints the stacks of other threads
        printed = re.split(r"(?m)^\++ Timeout \+", report.capstdout)[0]
        report.claim["printed"] = "\n".join(printed.splitlines()[-PRINTED_LINES:])
        report.claim["drawing"] = getattr(call.excinfo.value, "drawing", "")
        if item.config.getoption("call") and recorder.calls:
            call = recorder.whole_call()
            state.calls_to_show.setdefault(f"{lab.prefix}::{item.originalname}", call)
        first = (lab, report.claim["name"]) not in state.hinted  # a claim shows that case alone
        if first and recorder.calls and not outcome["broken"]:
            state.hinted.add((lab, report.claim["name"]))
            _hint(report.claim, lab, recorder, state)
            report.claim["needs"] = _needs(item, report.claim["waits_for"], state)
    if outcome["late"]:
        state.out_of_time.add((lab, report.claim["name"]))
    return report


def _hint(claim, lab, recorder, state):
    try:
        bank = read_bank(lab)
    except Exception as problem:  # a broken bank must not hide the learner's own failure
        claim["message"] += f" (the mistakes bank cannot be read: {problem})"
        return

    def further(function):
        items = [item for item in state.items if item.path == lab.file("test_lab")]
        items.sort(key=lambda item: item.name != claim["name"])
        return further_calls(function, items, bank.solution, state.implementations[lab])

    try:
        claim["hint"] = find_hint(bank, recorder.calls, further)
    except (Exception, pytest.fail.Exception):  # such as the time limit: then there is no hint
        pass


def _needs(item, names, state):
    """The functions of checks that this one waits for, were not selected, and do not pass."""
    selected = {other.nodeid for other in item.session.items}
    lab, found = state.lab_of(item), {}
    left = [o for o in state.items if o.path == item.path and o.originalname in names]
    for other in left:
        if other.nodeid in selected or other.originalname in found:
            continue
        try:
            if other.nodeid not in state.ran_apart:
                recorder = Recorder(state.implementations[lab])
                state.ran_apart[other.nodeid] = run_apart(other, recorder)
        except pytest.fail.Exception:  # the time limit
            return []
        error = state.ran_apart[other.nodeid]
        if error is not None and not isinstance(error, Apart):
            found[other.originalname] = task_of_check(lab, other.originalname)
    return list(dict.fromkeys(task.function for task in found.values() if task))


def pytest_report_teststatus(report):
    claim = getattr(report, "claim", None)
    if claim is None:
        return None
    if claim["outcome"] == "todo":
        return "todo", "t", ("TODO", {"yellow": True})
    if claim["outcome"] == "not_run":
        return "not run here", "-", ("NOT RUN HERE", {"yellow": True})
    return None
