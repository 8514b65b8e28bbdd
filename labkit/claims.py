"""What a check claims, what came of it, and how the cases of one claim make one outcome.

A claim's record holds plain values, so that it survives the way from an xdist worker or a sandbox:

    lab, name, text, points, waits_for     what the marks and the docstring say
    outcome                                one of ORDER, or "waits" after `settle`
    message, hint                          sentences for the learner
    crashed, late                          it ended in an exception that no check expected; in a
                                           time limit
    broken                                 why the file could not be loaded, else ""
    needs                                  functions of checks it waits for that were not selected
                                           and do not pass; may be left out
"""

import ast
import re
from dataclasses import dataclass

import pytest

from labkit.expect import Unexpected, describe
from labkit.loading import Lab, LoadError, describe_exception, line_in
from labkit.needs import NOT_HERE
from labkit.tasks import task_of_check, tasks_of

THE_CALL = " (pytest --call shows the whole call.)"
THE_LIMIT = "; --timeout SECONDS sets the limit"
# worst first: a claim is as good as its worst case
ORDER = ("failed", "todo", "waits", "not_run", "passed")


def claim_of(item) -> dict:
    """What a test claims, before it has run; points is 0 for one without the mark."""
    points = item.get_closest_marker("points")
    waits = {name: None for mark in item.iter_markers("waits_for") for name in mark.args}
    name = getattr(item, "originalname", None) or item.name
    return {
        "name": name,
        "text": (item.function.__doc__ or name).strip().split("\n")[0].rstrip("."),
        "points": points.args[0] if points else 0,
        "waits_for": list(waits),
    }


@dataclass(frozen=True)
class Claim:
    """A graded check as its file says it; marks are the constants in each, by its name."""

    name: str
    text: str
    points: int
    marks: dict[str, list]


def claims_in(lab: Lab) -> list[Claim]:
    """The graded checks of a lab's test_lab.py in order, read without running it."""
    tree = ast.parse(lab.file("test_lab").read_text(encoding="utf-8"))
    found = []
    for node in tree.body:
        marks = _marks(node) if isinstance(node, ast.FunctionDef) else {}
        if "points" in marks:
            text = (ast.get_docstring(node) or node.name).split("\n")[0].rstrip(".")
            found.append(Claim(node.name, text, marks["points"][0], marks))
    return found


def points_of_tasks(lab: Lab) -> dict[str, int]:
    """The points of each function that the learner writes, by its name."""
    points = dict.fromkeys(tasks_of(lab), 0)
    for claim in claims_in(lab):
        if task := task_of_check(lab, claim.name):
            points[task.function] += claim.points
    return points


def _marks(function):
    marks = {}
    for decorator in function.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        name = ast.unparse(call.func if call else decorator).rpartition("pytest.mark.")[2]
        values = call.args if call else ()
        marks[name] = [value.value for value in values if isinstance(value, ast.Constant)]
    return marks


def outcome_of(report, excinfo, path, recorder) -> dict:
    """outcome, message, crashed, late and broken of one finished check.

    path: the graded file. recorder: the Recorder of the check's calls.
    """
    if report.passed:
        return _outcome("passed")
    error = excinfo.value
    text = " ".join(str(error).split("\nassert ")[0].split())
    if report.skipped:
        if NOT_HERE in text:
            return _outcome("not_run", text.partition(NOT_HERE)[2])
        return _outcome("failed", f"the check was skipped: {text}")
    if isinstance(error, LoadError):
        return _outcome("failed", text, crashed=True, broken=text)
    if isinstance(error, NotImplementedError):
        return _outcome("todo", text)
    if isinstance(error, pytest.fail.Exception):  # which pytest-timeout raises, and no learner
        if limit := re.match(r"Timeout \(>([\d.]+)s\) from pytest-timeout", text):
            return _outcome("failed", _endless(recorder, float(limit[1])), late=True)
        return _outcome("failed", text)
    own = excinfo.traceback[-1].path == path  # raised by the learner's own file
    if isinstance(error, Unexpected) and recorder.calls:
        recorder.calls.rotate(error.calls_after)  # what is spoken of is now the last
        raised = recorder.error if error.__context__ is recorder.error else None
        line = raised and not error.__suppress_context__ and line_in(raised, str(path))
        where = f"{path.name} line {line}: " if line else ""
        told = f"{recorder.described()}{error.part}: {where}{text}{_cut(recorder)}"
        return _outcome("failed", told)
    if isinstance(error, AssertionError) and not own:
        return _outcome("failed", text or _source_of(excinfo))
    bare = isinstance(error, AssertionError) and not text
    called = recorder.calls[-1][0] if recorder.calls else ""
    if called and error is recorder.error and (due := recorder.due()) is not None:
        error.__notes__ = [f"Expected {describe(due)}.", *getattr(error, "__notes__", ())]
    told = _source_of(excinfo) if bare else describe_exception(error, path, called)
    if called:  # the check's own code may stumble over what a call gave it, or ranks over others'
        came_back = recorder.error is None or isinstance(recorder.error, Exception)
        after = "after " if came_back and error is not recorder.error else ""
        told = f"{after}{recorder.described()}: {told}{_cut(recorder)}"
    return _outcome("failed", told, crashed=True)


def _cut(recorder):
    """Where the call was too long to be shown whole: what shows it."""
    return THE_CALL if "..." in recorder.described() else ""


def settle(cases, unreached=()) -> list[dict]:
    """One record per claim: its worst case; `waits` for what failed while it waits for another.

    unreached: names of claims with a case that was selected and never run; these have not passed.
    """
    claims = {}
    for case in cases:
        claim = claims.setdefault(case["name"], dict(case))
        if ORDER.index(case["outcome"]) < ORDER.index(claim["outcome"]):
            claims[case["name"]] = dict(case)
    for name in unreached:
        if name in claims and claims[name]["outcome"] == "passed":  # so far
            del claims[name]
    passed = {name for name, claim in claims.items() if claim["outcome"] == "passed"}
    for claim in claims.values():
        blocking = [name for name in claim["waits_for"] if name in claims and name not in passed]
        needs = claim.get("needs")
        if claim["outcome"] == "failed" and needs and not blocking and not claim["broken"]:
            told = claim["message"].partition(" Look again at: ")[0]
            names = ", ".join(needs)
            fail, them = ("does", "that") if len(needs) == 1 else ("do", "them")
            if claim["crashed"] and not any(f" in {name})" in told for name in needs):
                said = f"{told} (It needs {names}, too, which {fail} not pass.)"
            else:
                said = f"it needs {names}, which {fail} not pass; write {them} first. ({told})"
            claim.update(message=said, hint="")
        if claim["outcome"] == "failed" and blocking and not claim["broken"]:
            text = claims[blocking[0]]["text"]
            claim.update(
                outcome="waits",
                message=f"waits for: {shown(text, False)}",
                **dict.fromkeys(("hint", "drawing", "printed"), ""),
            )
    return list(claims.values())


def shown(text: str, passed: bool) -> str:
    """A claim as the screen shows it: `{63}` is an answer to guess first, `…` until it passes."""
    return re.sub(r"\{([^{}]*)\}", r"\1" if passed else "…", text)


def _outcome(outcome, message="", crashed=False, broken="", late=False):
    how = {"crashed": crashed or late, "late": late}
    return {"outcome": outcome, "message": message, "broken": broken} | how


def _endless(recorder, limit_s):
    stuck = recorder.described(recorder.running) if recorder.running else "the check"
    return f"{stuck} did not finish within {limit_s:g} s (an endless loop?){THE_LIMIT}"


def _source_of(excinfo):
    entry = excinfo.traceback[-1]
    try:
        statement = str(entry.statement).strip()
    except IndexError:  # the file on the disk is shorter: another one was graded
        statement = "AssertionError"
    return f"{entry.path.name} line {entry.lineno + 1}: {statement}"
