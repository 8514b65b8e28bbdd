"""A case earns only after every run that it was due; what the worker sends is on the clock."""

import io
import json
import os
import resource
import signal
import socket
import time
import types

import pytest

from grading.fingerprint import labs_by_prefix
from grading.grader import Grader, JudgeProcess
from grading.inside import wire
from grading.judge import ALL_PASSED, HIDDEN_FAILED, Judge, score
from grading.limits import Limits
from grading.remote import Incident, RemoteLab
from grading.sandbox import REQUIRED
from labkit.plugin import CHECK_S
from labkit.session import STATE

EXPECTED = {
    "test_sum": {
        "name": "test_sum",
        "text": "sums",
        "points": 100,
        "waits_for": [],
        "cases": ["a"],
    }
}
DONE = {"done": True, "infrastructure": "", "printed": ""}


def report(outcome="passed", incident=None, **more):
    claim = {"outcome": outcome, "message": outcome, "hint": "", "broken": ""}
    return {"check": "a", "phases": ALL_PASSED, "claim": claim, "incident": incident} | more


def claim_of(*lines, hidden=True):
    result = score(EXPECTED, [*lines, DONE], False, 0, hidden=hidden)
    assert result["status"] == "graded"
    return result["claims"][0]


def test_a_case_that_failed_and_was_never_explained_is_not_lost():
    late = score(EXPECTED, [report("failed")], True, -9, hidden=True)
    assert (late["status"], late["score"]) == ("graded", 0)
    assert late["claims"][0]["outcome"] == "timeout"
    for lines in ([report("failed"), DONE], [DONE]):
        assert score(EXPECTED, lines, False, 0, hidden=True)["status"] == "infrastructure"
    assert score(EXPECTED, [report()], True, -9, hidden=True)["score"] == 100


def test_the_first_run_decides_and_the_second_one_tells_why():
    assert claim_of(report())["earned"] == 100
    ended = report(incident={"kind": "memory", "message": "secret"})
    for first in (report("failed"), report("todo"), ended):
        known = {"outcome": "failed", "message": "known", "hint": "h", "broken": ""}
        told = claim_of(first, report(claim=known))
        assert (told["earned"], told["message"], told["hint"]) == (0, "known", "h")
        other = claim_of(first, report())
        assert (other["earned"], other["message"]) == (0, HIDDEN_FAILED)
        assert claim_of(first, report("todo"))["outcome"] == "todo"
        crashed = report(incident={"kind": "crashed", "message": "it ended"})
        assert claim_of(first, crashed)["message"] == "it ended"


def test_a_run_without_time_is_not_tried_again():
    ended = report(incident={"kind": "timeout", "message": "f did not finish within 10 s"})
    told = claim_of(ended)
    assert (told["outcome"], told["earned"]) == ("timeout", 0)
    assert told["message"] == "f did not finish within 10 s"


def test_the_worst_of_a_claim_is_an_incident_and_it_does_not_wait():
    expected = {
        "test_first": EXPECTED["test_sum"] | {"name": "test_first", "cases": ["a"]},
        "test_then": EXPECTED["test_sum"]
        | {"name": "test_then", "cases": ["b", "c"], "waits_for": ["test_first"]},
    }
    ended = {"kind": "crashed", "message": "it ended"}
    for first, second, outcome in (
        ("failed", None, "waits"),
        ("failed", ended, "crashed"),
        ("passed", None, "failed"),
    ):
        lines = [report(first), report("failed", check="b"), report("failed", second, check="c")]
        result = score(expected, [*lines, DONE], False, 0)
        assert [claim["outcome"] for claim in result["claims"]] == [first, outcome]


@pytest.mark.parametrize(("layers", "integrity"), [(list(REQUIRED), "isolated"), ([], "weak")])
def test_a_late_result_is_stamped_by_the_sandbox_it_ran_in(layers, integrity, monkeypatch):
    """The judge was killed: no line says `done`."""
    lab = labs_by_prefix()["lab-01"]
    late = score(EXPECTED, [{"layers": layers}, report()], True, -9)
    with Grader(Limits(), weak=True) as grader:
        monkeypatch.setattr(grader, "_prove", lambda _: None)
        monkeypatch.setattr(grader, "_ask", lambda *_: late)
        grader.claims[lab.name] = late["claims"]
        result = grader.grade(b"", lab)
        assert (result["score"], result["integrity"]) == (100, integrity)
        assert result["layers"] == sorted(layers)
        assert grader.refuse("an empty file", lab)["integrity"] == "isolated"  # nothing ran


def test_what_a_judge_says_before_it_is_killed_holds_the_layers():
    server = Judge(None, None, None, Limits())
    server.remote = RemoteLab(b"", None, b"", Limits(), None, "starter.py")
    process = type("Loaded", (), {"loaded": True})()
    server.remote._start = lambda: setattr(server.remote, "layers", ["seccomp"]) or process
    server.out = io.StringIO()
    server.pytest_lab_implementation(None, None)
    lines = [json.loads(line) for line in server.out.getvalue().splitlines()]
    assert score(EXPECTED, [*lines, report()], True, -9)["layers"] == ["seccomp"]


def test_requests_that_wait_in_the_buffer_are_on_the_clock():
    remote = RemoteLab(b"", None, b"", Limits(check_s=0.05), None, "starter.py")
    request = wire.frame(("collective", "all_reduce", [], None))
    sent = []
    remote._collectives = types.SimpleNamespace(all_reduce=lambda parts: time.sleep(0.02))
    process = types.SimpleNamespace(
        arrived=bytearray(request * 50),
        data=types.SimpleNamespace(sendall=sent.append, settimeout=lambda _: None),
        read_output=lambda _: b"",
        loaded=True,
    )
    with pytest.raises(Incident) as caught:
        remote._ask(process, ("call", "f", (), {}, None, True), "f")
    assert caught.value.kind == "timeout" and len(sent) < 10


def test_what_fails_is_run_again_in_other_processes_with_the_published_numbers(monkeypatch):
    for name in ("resource.setrlimit", "signal.signal"):  # this process is to keep its own
        monkeypatch.setattr(f"grading.judge.{name}", lambda *_: None)
    numbers = types.SimpleNamespace(secret=None)
    monkeypatch.setattr("grading.judge.Numbers", lambda: numbers)
    server = Judge(types.SimpleNamespace(file=lambda _: ""), None, None, Limits(submission_s=7))
    server.items = [types.SimpleNamespace(nodeid=name) for name in "abc"]
    state = types.SimpleNamespace(implementations={}, hints=True)
    server.session = types.SimpleNamespace(config=types.SimpleNamespace(stash={STATE: state}))
    server.collectives, runs = None, []

    def check(item):
        runs.append((item.nodeid, numbers.secret, state.hints, server.remote))
        assert server.remote._left_s == 7 or len(runs) > 1
        if item.nodeid == "c":
            server.remote.incident = Incident("timeout", "f did not finish")
        return item.nodeid == "a"

    server.check = check
    server.grade_in_fork({"source": "", "seed": "5e", "request": "{}"}, io.StringIO())
    said = [run[:3] for run in runs]
    assert said == [(name, b"\x5e", False) for name in "abc"] + [("b", None, True)]
    assert runs[0][3] is runs[2][3] is not runs[3][3]
    assert runs[3][3]._keep_output and not runs[0][3]._keep_output


def test_what_a_result_costs_the_judge_is_the_submissions_incident():
    server = Judge(None, None, None, Limits(submission_s=0.1))
    server.remote, server.own_s = types.SimpleNamespace(what_happened=None), 0.1
    before = signal.signal(signal.SIGPROF, server.out_of_time)
    try:
        with server.own_work():
            pass
        assert server.what_happened is None
        with server.own_work():
            try:
                while True:
                    pass
            except Exception:  # as a test or a hint might
                pass
        assert server.what_happened.kind == "timeout"
        with server.own_work():
            raise MemoryError
        assert server.what_happened.kind == "memory"
        server.out_of_time()  # a signal that comes late is nobody's
    finally:
        signal.signal(signal.SIGPROF, before)


def test_a_grader_among_a_thousand_descriptors_hears_its_judge():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip(f"not run here: this process may open {hard} files, not 1200")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1050)]
    ours, theirs = socket.socketpair()
    try:
        assert ours.fileno() > 1023
        judge = types.SimpleNamespace(requests=ours, lines=ours.makefile("rb"))
        assert JudgeProcess._line(judge, 0.01) == {}
        theirs.sendall(b'{"ready": true}\n')
        assert JudgeProcess._line(judge, 5) == {"ready": True}
    finally:
        for descriptor in held:
            os.close(descriptor)
        judge.lines.close()
        ours.close()
        theirs.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_check_has_the_same_time_at_home_and_here_as_the_readme_says():
    folder = labs_by_prefix()["lab-01"].path.parent
    readme = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert CHECK_S == Limits().check_s
    assert f"may take {CHECK_S:g} seconds" in readme and "`--check-s` in the grader" in readme


@pytest.mark.isolation
@pytest.mark.torch
@pytest.mark.timeout(120)
def test_schedules_of_lab_02_run_on_gloo_here_too(monkeypatch):
    """The one place where a graded check starts Torch; the other tests do without."""
    monkeypatch.setenv("LAB_VLLM_PYTHON", "none")
    lab = labs_by_prefix()["lab-02"]
    with Grader(Limits(), number=5) as grader:
        result = grader.grade(lab.file("starter").read_bytes(), lab)
        proved = {claim["name"]: claim["outcome"] for claim in grader.claims[lab.name]}
    assert result["status"] == "graded"
    assert proved["test_gemm_reduce_scatter_schedule__and_all_gather_run_on_gloo"] == "passed"
