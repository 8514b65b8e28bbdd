"""The trusted side of one lab: pytest, collected once, forked for each submission.

`python -m grading.judge LAB_FOLDER CONTROL REQUESTS LIMITS` collects the lab's pristine tests
with labkit's plugin, then answers requests, one JSON line each: {"source": base64, "seed": hex or
null, "request": worker request}. The answer is one JSON line: a result (see `score`). Scoring is
closed-world: the expected checks and points come from the collection, the grader first proves the
solution on them, and only a call phase that reported `passed`, once, earns.
"""

import base64
import contextlib
import gc
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path

import pytest

from grading.hidden import Numbers
from grading.limits import INCIDENTS, MIB, Limits
from grading.remote import Incident, RemoteLab
from grading.sanitise import clean, clean_lines
from labkit.claims import claim_of, settle, shown
from labkit.loading import ROOT, Implementation, Lab, find_labs, load_module
from labkit.mistakes import read_bank
from labkit.session import STATE

ADDRESS_SPACE = 6144 * MIB
OWN_DATA = 1024 * MIB  # what the judge itself may fill from there on; the labs need 110 MiB
OWN_S = 1.0  # of its own processor time that a check gets when the submission's share is used up
ROUNDS = 2  # hidden, and to tell why: the submission's time is for each
SLACK_S = 60  # of the judge's own work, over the submission's time
HIDDEN_FAILED = (
    "passes on the published numbers, but not on others of the same shapes: compute the result "
    "from the arguments, whatever they are"
)
LATE = "the checks took too long with these results"
LARGE = "the checks ran out of memory with these results"


class OutOfTime(BaseException):
    """The judge's own work took too long: a result made it so."""


def too_late(*_):
    raise OutOfTime


class Judge:
    """The pytest plugin: collects, then serves instead of running the tests."""

    def __init__(self, lab: Lab, control, requests, limits):
        self.lab, self.control, self.requests, self.limits = lab, control, requests, limits
        self.remote = None  # the RemoteLab of the submission at hand

    def pytest_lab_implementation(self, lab, config):
        if isinstance(self.remote, RemoteLab):
            try:
                self.remote.load()  # LoadError says why not, as for a file of the learner's own
            finally:
                self.say({"layers": self.remote.layers})  # now: this process may be stopped late
        return self.remote

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        self.session = session
        self.items = list(session.items)
        self.collectives = sys.modules.get("collectives")
        self.expected = {}
        for item in self.items:
            points = item.get_closest_marker("points")
            if points is None:
                continue
            claim = self.expected.setdefault(item.originalname, claim_of(item) | {"cases": []})
            claim["cases"].append(item.nodeid)
        read_bank(self.lab)  # every fork inherits it
        for name in ("terminalreporter", "lab-scoreboard"):
            plugin = session.config.pluginmanager.get_plugin(name)
            if plugin is not None:
                session.config.pluginmanager.unregister(plugin)
        for item in self.items:  # labkit's sentence is all that is kept of a failure
            item.repr_failure = item._repr_failure_py = lambda excinfo, style=None: ""
        problem = "" if not session.testsfailed else "the tests cannot be collected"
        total = sum(claim["points"] for claim in self.expected.values())
        if total != 100:
            problem = problem or f"the points of {self.lab.name} add up to {total}, not 100"
        self.answer({"ready": not problem, "problem": problem})
        if not problem:
            self.serve()
        os._exit(0)

    # --- one submission -------------------------------------------------------------------------

    def warm_up(self):
        """Run the checks on the solution in this process: forks inherit warm modules and code."""
        self.remote = Implementation(load_module(self.lab.file("solution")), "solution.py")
        for item in self.items:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        self.remote = None

    def serve(self):
        self.warm_up()
        gc.collect()
        gc.freeze()
        gc.disable()  # each fork lives for one submission
        for line in self.requests.makefile("rb"):
            self.answer(self.grade(json.loads(line)))

    def answer(self, what):
        self.requests.sendall(json.dumps(what).encode() + b"\n")

    def grade(self, request):
        """Fork; the child reports each check as it is done; this side holds the clock."""
        reports, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reports)
                self.requests.close()
                self.grade_in_fork(request, os.fdopen(theirs, "w"))
            except BaseException as error:
                sys.stderr.write(f"judge: {error!r}\n")
            finally:
                os._exit(0)
        os.close(theirs)
        lines, late = [], False
        signal.signal(signal.SIGALRM, too_late)
        signal.setitimer(signal.ITIMER_REAL, (ROUNDS + 1) * self.limits.submission_s + SLACK_S)
        try:
            with os.fdopen(reports, "rb") as told:
                for line in told:
                    lines.append(line)
        except OutOfTime:
            late = True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        os.kill(child, signal.SIGKILL)  # nothing to do for one that is done
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        lines = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return score(self.expected, lines, late, code, hidden=bool(request["seed"]))

    def grade_in_fork(self, request, out):
        """In the fork: every check once, on the secret's numbers; what failed then, to tell why.

        What is told comes from the published numbers, in processes that never saw the others: all
        of the first round's have ended, and none shares a file, a socket or a queue with them.
        What they could still say to each other by the clock, by the kernel's counters (the number
        of a new pipe, say), and by the caches of the processor and of the files that all may read,
        is not kept from them: a few of a check's thousands of numbers in each hand-in.
        """
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        with open("/proc/self/statm") as file:  # Python 3.13 has reserved 1.2 GiB by now
            reserved = int(file.read().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (reserved + OWN_DATA,) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, self.out_of_time)
        self.own_s, self.working, self.overrun = self.limits.submission_s, False, None
        self.out, numbers = out, Numbers()
        try:
            if request["seed"]:
                numbers.secret = bytes.fromhex(request["seed"])
                untold = self.round(request, self.items, hidden=True)
                numbers.secret = None
            else:
                untold = self.items
            if untold and not (self.remote and self.remote.infrastructure):
                self.round(request, untold, hidden=False)
        finally:
            self.say(
                {
                    "done": True,
                    "infrastructure": clean(self.remote.infrastructure),
                    "printed": clean_lines(self.remote.output.decode("utf-8", "replace")),
                }
            )

    def round(self, request, items, hidden):
        """Run these checks in fresh processes; those of which no report may say why they failed."""
        state, untold = self.session.config.stash[STATE], []
        state.implementations.clear()
        state.hints = not hidden
        self.remote = RemoteLab(
            base64.b64decode(request["source"]),
            self.control,
            request["request"].encode(),
            self.limits,
            self.collectives,
            self.lab.file("starter"),
            keep_output=not hidden,
        )
        try:
            for item in items:
                self.say({"begins": item.nodeid})
                passed = self.check(item)
                incident = self.what_happened
                if not passed and not (incident and incident.kind == "timeout"):
                    untold.append(item)
                if self.remote.infrastructure:
                    break
        finally:
            self.remote.close()
        return untold

    def say(self, what):
        self.out.write(json.dumps(what) + "\n")
        self.out.flush()

    def out_of_time(self, *_):
        if self.working:
            self.overrun = self.overrun or Incident("timeout", LATE)
            raise OutOfTime

    @contextlib.contextmanager
    def own_work(self):
        """Bounds what this process does; what was too much is the submission's incident.

        The labs' checks take 2 s together; results made for it could take them hours.
        """
        self.overrun, self.working = None, True
        signal.setitimer(signal.ITIMER_PROF, max(self.own_s, OWN_S))
        try:
            yield
        except OutOfTime:
            pass
        except MemoryError:
            self.overrun = Incident("memory", LARGE)
        finally:
            self.working = False
            self.own_s = signal.setitimer(signal.ITIMER_PROF, 0)[0]

    @property
    def what_happened(self):
        return self.remote.what_happened or self.overrun

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        """What a hint calls comes after the outcome, and changes it no more."""
        if not isinstance(self.remote, RemoteLab):
            return (yield)
        before = self.remote.incident
        report = yield
        self.remote.incident = before
        return report

    def pytest_exception_interact(self, node, call, report):
        if isinstance(call.excinfo.value, MemoryError):
            self.overrun = Incident("memory", LARGE)

    def check(self, item):
        """One run of one check, and the report of it."""
        self.phases, self.claim = [], None
        self.remote.begin_check()
        item._initrequest()  # pytest keeps a used request: a second run needs a fresh one
        with self.own_work():
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if self.overrun:
            gc.collect()
            with contextlib.suppress(Exception):
                item.session._setupstate.teardown_exact(None)  # if it was cut short
        incident = self.what_happened
        self.say(
            {
                "check": item.nodeid,
                "phases": self.phases,
                "claim": self.claim,
                "incident": incident and {"kind": incident.kind, "message": clean(incident)},
            }
        )
        return self.phases == ALL_PASSED and not incident

    def pytest_runtest_logreport(self, report):
        if not isinstance(self.remote, RemoteLab):
            return  # warming up
        self.phases.append([report.when, report.outcome])
        claim = getattr(report, "claim", None)
        if claim is not None:
            keys = ("outcome", "message", "hint", "broken")
            self.claim = {key: clean(claim[key]) for key in keys}


ALL_PASSED = [["setup", "passed"], ["call", "passed"], ["teardown", "passed"]]
FAILED = {"outcome": "failed", "message": "", "hint": "", "broken": "", "incident": ""}


# --- scoring ------------------------------------------------------------------------------------


def score(expected, lines, late, exit_code, hidden=False):
    """The result of one submission from the lines its judge reported.

    {"status": "graded" | "infrastructure", "problem", "score", "not_run", "claims", "layers",
    "printed"}. A check that reported nothing earns nothing, and if it is not the submission's
    doing, the result is `infrastructure`, not a zero. If `hidden`, the first report of a case
    decides whether it passed, and the second one says why not.
    """
    reports, running, done, layers = {}, None, {}, []
    for line in lines:
        running = line.get("begins", running)
        layers = line.get("layers", layers)
        if "check" in line:
            reports.setdefault(line["check"], []).append(line)
        elif "done" in line:
            done = line
    problem = done.get("infrastructure", "")
    if not done and not late:
        problem = f"the judge ended during {running} (exit status {exit_code})"
    outcomes = []
    for claim in expected.values():
        for case in claim["cases"]:
            outcome = _outcome(reports.get(case, []), hidden)
            if outcome is None and not late:
                problem = problem or f"{case} was not reported as often as it was due"
            outcomes.append(claim | (outcome or _incident("timeout", LATE)))
    outcomes.sort(key=lambda outcome: (*INCIDENTS, "").index(outcome["incident"]))
    settled = {claim["name"]: claim for claim in settle(outcomes)}
    claims = [_final(settled[name]) for name in expected]
    return {
        "status": "infrastructure" if problem else "graded",
        "problem": problem,
        "score": 0 if problem else sum(claim["earned"] for claim in claims),
        "not_run": sum(claim["points"] for claim in claims if claim["outcome"] == "not_run"),
        "claims": claims,
        "layers": layers,
        "printed": done.get("printed", ""),
    }


def _final(claim):
    """A settled claim as it is kept: only `passed` earns."""
    outcome = claim["incident"] or claim["outcome"]
    passed = outcome == "passed"
    kept = {key: claim[key] for key in ("name", "points", "message", "hint", "broken")}
    return kept | {
        "outcome": outcome,
        "text": clean(shown(claim["text"], passed)),
        "earned": claim["points"] if passed else 0,
    }


def _incident(kind, sentence, broken=""):
    """To settle() a failure, but one that is not waited away."""
    found = {"message": sentence, "broken": broken, "incident": kind, "waits_for": []}
    return FAILED | found


def _outcome(reports, hidden):
    """What the runs of one case came to, or None if one of them is still due."""
    if not reports:
        return None
    first, *more = map(_of_one_run, reports)
    if not hidden or first["outcome"] == "passed" or first["incident"] == "timeout":
        return first  # the grader's own sentence: no words of the hidden run are in it
    if more and more[0]["outcome"] == "passed":
        return FAILED | {"message": HIDDEN_FAILED}
    return more[0] if more else None


def _of_one_run(report):
    """The claim as this run of the case left it; only one of settle()'s outcomes is believed."""
    claim = FAILED | (report["claim"] or {})
    if report["incident"]:
        message = report["incident"]["message"]
        return _incident(report["incident"]["kind"], message, claim["broken"] and message)
    if claim["outcome"] == "passed" and report["phases"] != ALL_PASSED:
        return FAILED | {"message": "the check did not run to its end"}
    if claim["outcome"] not in ("passed", "failed", "todo", "not_run"):
        return FAILED | {"message": "the check reported something else than an outcome"}
    return claim


def main():
    folder, control, requests, limits = sys.argv[1:]
    lab = next(lab for lab in find_labs() if lab.path == Path(folder))
    control = socket.socket(fileno=int(control))
    requests = socket.socket(fileno=int(requests))
    judge = Judge(lab, control, requests, Limits(**json.loads(limits)))
    os.chdir(ROOT)
    options = ["-q", "-s", "-pno:cacheprovider", "-pno:xdist", "-pno:logging", "--tb=line"]
    options += ["--timeout=0", f"--rootdir={ROOT}", f"-c{ROOT}/pytest.ini"]
    code = pytest.main([str(lab.file("test_lab")), *options], plugins=[judge])
    judge.answer({"ready": False, "problem": f"pytest ended with status {int(code)}"})


if __name__ == "__main__":
    main()
