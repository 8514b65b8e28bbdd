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
import select
import signal
import socket
import sys
import time
from pathlib import Path

if __name__ == "__main__":  # a process of its own; whoever only imports `score` keeps theirs
    os.environ["LAB_IMPL"] = "starter"
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[_name] = "1"  # before numpy is imported

import pytest

from grading.hidden import Numbers, agrees_elsewhere
from grading.limits import MIB, Limits
from grading.remote import Incident, RemoteLab
from grading.sanitise import clean, clean_lines
from labkit.claims import claim_of, settle, shown
from labkit.loading import ROOT, Implementation, Lab, find_labs, load_module
from labkit.mistakes import read_bank
from labkit.plugin import STATE

ADDRESS_SPACE = 6144 * MIB
OWN_DATA = 1024 * MIB  # what the judge itself may fill; the labs need 110 MiB
OWN_S = 1.0  # of its own processor time that a check gets when the submission's share is used up
ROUNDS = 2  # published, hidden: the submission's time is for each
SLACK_S = 60  # of the judge's own work, over the submission's time
INCIDENTS = ("protocol", "memory", "timeout", "output", "crashed")  # worst first
HIDDEN_FAILED = (
    "passes on the published numbers, but not on others of the same shapes: compute the result "
    "from the arguments, whatever they are"
)
HIDDEN_LATE = (
    "passes on the published numbers, but the time was used up before others of the same shapes "
    "were done; make it faster"
)
LATE = "the checks took too long with these results"
LARGE = "the checks ran out of memory with these results"


class OutOfTime(BaseException):
    """The judge's own work took too long: a result made it so."""


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
        self.requests.sendall(
            json.dumps({"ready": not problem, "problem": problem}).encode() + b"\n"
        )
        if not problem:
            self.serve()
        os._exit(0)

    # --- one submission -------------------------------------------------------------------------

    def warm_up(self):
        """Run the checks on the solution in this process: forks inherit warm modules and code."""
        self.solution = load_module(self.lab.file("solution"))
        self.remote = Implementation(self.solution, "solution.py")
        for item in self.items:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            item._initrequest()
        self.session.config.stash[STATE].implementations.clear()
        self.remote = None

    def serve(self):
        self.warm_up()
        gc.collect()
        gc.freeze()
        gc.disable()  # each fork lives for one submission
        lines = self.requests.makefile("rb")
        for line in lines:
            request = json.loads(line)
            result = self.grade(request)
            self.answer(result)

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
        deadline = time.monotonic() + (ROUNDS + 1) * self.limits.submission_s + SLACK_S
        data, late = b"", False
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([reports], [], [], left)[0]:
                late = True
                break
            chunk = os.read(reports, 1 << 16)
            if not chunk:
                break
            data += chunk
        os.kill(child, signal.SIGKILL)  # nothing to do for one that is done
        _, status = os.waitpid(child, 0)
        os.close(reports)
        lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
        code = os.waitstatus_to_exitcode(status)
        return score(self.expected, lines, late, code, hidden=bool(request["seed"]))

    def grade_in_fork(self, request, out):
        """In the fork: every check, and what passed again with hidden numbers."""
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_DATA, (OWN_DATA, OWN_DATA))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, self.out_of_time)
        self.own_s, self.working, self.overrun = self.limits.submission_s, False, None
        self.out = out
        worker = json.loads(request["request"])
        worker["cpu_s"] *= ROUNDS
        self.remote = RemoteLab(
            base64.b64decode(request["source"]),
            self.control,
            json.dumps(worker).encode(),
            self.limits,
            self.collectives,
            self.lab.file("starter"),
        )
        numbers = Numbers()
        # after all the others, so that no published check can tell what it saw, or use what it bent
        again = []
        try:
            for item in self.items:
                self.say({"begins": item.nodeid})
                numbers.draws = 0
                passed = self.check(item)
                if self.remote.infrastructure:
                    break
                if passed and request["seed"]:
                    again.append((item, numbers.draws, self.calls))
            self.remote.drain()
            self.remote.renew_time()
            for item, draws, calls in again:
                if self.remote.infrastructure:
                    break
                self.say({"begins": item.nodeid})
                self.check_hidden(item, numbers if draws else None, calls, request["seed"])
        finally:
            self.remote.close()
            self.say(
                {
                    "done": True,
                    "infrastructure": clean(self.remote.infrastructure),
                    "printed": clean_lines(self.remote.output.decode("utf-8", "replace")),
                }
            )

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

    def check(self, item, hidden=False):
        """One run of one check; it counts only together with the check's other run."""
        self.phases, self.claim, self.calls = [], None, []
        self.remote.begin_check(hidden)
        if hidden:
            item._initrequest()  # pytest keeps a used request: a second run needs a fresh one
        with self.own_work():
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if self.overrun:
            gc.collect()
            with contextlib.suppress(Exception):
                item.session._setupstate.teardown_exact(None)  # if it was cut short
        self.report(item, hidden)
        return self.phases == ALL_PASSED and not self.what_happened

    def report(self, item, hidden):
        incident = self.what_happened
        self.say(
            {
                "check": item.nodeid,
                "hidden": hidden,
                "phases": self.phases,
                "claim": self.claim,
                "incident": incident and {"kind": incident.kind, "message": clean(incident)},
            }
        )

    def check_hidden(self, item, numbers, calls, seed):
        """A check that draws numbers again, with others drawn; of another, some calls changed."""
        seed = bytes.fromhex(seed)
        if numbers:
            numbers.secret = seed
            self.check(item, hidden=True)
            numbers.secret = None
            reasons = {call[0]: "" for call in calls}
        else:
            reasons = self.check_elsewhere(item, calls, seed + item.nodeid.encode())
        self.say({"rechecked": item.nodeid, "reasons": reasons})

    def check_elsewhere(self, item, calls, seed):
        """Some of the check's calls again, with a number changed, against the solution.

        By function: why it could not be compared, or "".
        """
        self.remote.begin_check(hidden=True)
        agreed, reasons = False, {}
        with self.own_work():
            agreed, reasons = agrees_elsewhere(calls, self.solution, self.remote, seed)
        self.phases = ALL_PASSED
        outcome = "passed" if agreed else "failed"
        self.claim = {"outcome": outcome, "message": "", "hint": "", "broken": ""}
        self.report(item, hidden=True)
        return reasons

    def pytest_lab_calls(self, calls):
        self.calls = list(calls)

    def pytest_runtest_logreport(self, report):
        if not isinstance(self.remote, RemoteLab):
            return  # warming up
        self.phases.append([report.when, report.outcome])
        claim = getattr(report, "claim", None)
        if claim is not None:
            keys = ("outcome", "message", "hint", "broken")
            self.claim = {key: clean(claim[key]) for key in keys}


ALL_PASSED = [["setup", "passed"], ["call", "passed"], ["teardown", "passed"]]


# --- scoring ------------------------------------------------------------------------------------


def score(expected, lines, late, exit_code, hidden=False):
    """The result of one submission from the lines its judge reported.

    {"status": "graded" | "infrastructure", "problem", "score", "not_run", "claims", "layers",
    "printed", "hidden_checks", "hidden_notes", "not_compared"}; the notes, and the functions that
    no hidden number could reach with the reasons, are for the instructor alone. A check that
    reported nothing earns nothing, and if it is not the submission's doing, the result is
    `infrastructure`, not a zero. If `hidden`, a case that passed earns only after its hidden run.
    """
    cases, rechecked, running, done, notes, layers = {}, {}, None, {}, [], []
    for line in lines:
        if "begins" in line:
            running = line["begins"]
        elif "layers" in line:
            layers = line["layers"]
        elif "rechecked" in line:
            rechecked[line["rechecked"]] = line["reasons"]
        elif "check" in line:
            cases.setdefault(line["check"], []).append(line)
            if line["hidden"] and line["incident"]:
                notes.append(f"{line['check'].split('::')[-1]}: {line['incident']['kind']}")
        elif "done" in line:
            done = line
    problem = done.get("infrastructure", "")
    if not done and not late:
        problem = f"the judge ended during {running} (exit status {exit_code})"
    outcomes = []
    for claim in expected.values():
        for case in claim["cases"]:
            found = [_outcome(report) for report in cases.get(case, [])]
            first = [report for report in cases.get(case, []) if not report["hidden"]]
            passed = all(outcome["outcome"] == "passed" for outcome in found)
            if len(first) != 1 or hidden and passed and case not in rechecked:
                if not late:
                    problem = problem or f"{case} was not reported as often as it ran"
                found.append(_incident("timeout", LATE))
            outcomes += [claim | outcome for outcome in found]
    claims = [_final(claim) for claim in settle(sorted(outcomes, key=_no_incident))]
    claims.sort(key=lambda claim: list(expected).index(claim["name"]))
    return {
        "status": "infrastructure" if problem else "graded",
        "problem": problem,
        "score": 0 if problem else sum(claim["earned"] for claim in claims),
        "not_run": sum(claim["points"] for claim in claims if claim["outcome"] == "not_run"),
        "claims": claims,
        "layers": layers,
        "printed": done.get("printed", ""),
        "hidden_checks": sum(line.get("hidden", False) for line in lines),
        "hidden_notes": [clean(note) for note in notes],
        "not_compared": _not_compared(rechecked.values()),
    }


def _not_compared(found):
    """{function: why} of those that no check could compare on hidden numbers."""
    reasons = {}
    for by_function in found:
        for name, reason in by_function.items():
            reasons[name] = reason and reasons.get(name, reason)
    return {name: clean(reason) for name, reason in sorted(reasons.items()) if reason}


def _final(claim):
    """A settled claim as it is kept: an incident is not waited away, and only `passed` earns."""
    if claim["incident"]:
        claim = claim | {"outcome": claim["incident"], "message": claim["sentence"]}
    passed = claim["outcome"] == "passed"
    kept = {key: claim[key] for key in ("name", "points", "outcome", "message", "hint", "broken")}
    return kept | {
        "text": clean(shown(claim["text"], passed)),
        "earned": passed and claim["points"] or 0,
    }


def _no_incident(outcome):
    return INCIDENTS.index(outcome["incident"]) if outcome["incident"] else len(INCIDENTS)


def _incident(kind, sentence, broken=""):
    found = {"outcome": "failed", "message": sentence, "hint": "", "broken": broken}
    return found | {"incident": kind, "sentence": sentence}


def _outcome(report):
    """What one run of one case came to; settle() knows `failed`, and keeps the incident."""
    claim = report["claim"] or {"outcome": "failed", "message": "", "hint": "", "broken": ""}
    claim = claim | {"incident": "", "sentence": ""}
    outcome, failed = claim["outcome"], {"outcome": "failed", "hint": "", "broken": ""}
    if report["incident"] and report["hidden"]:  # its words could tell the hidden numbers
        if report["incident"]["kind"] == "timeout":
            return _incident("timeout", HIDDEN_LATE)
        return claim | failed | {"message": HIDDEN_FAILED}
    if report["incident"]:
        message = report["incident"]["message"]
        return _incident(report["incident"]["kind"], message, message if claim["broken"] else "")
    if outcome == "passed" and report["phases"] != ALL_PASSED:
        return claim | failed | {"message": "the check did not run to its end"}
    if outcome not in ("passed", "failed", "todo", "not_run"):
        return claim | failed | {"message": "the check reported something else than an outcome"}
    if report["hidden"] and outcome != "passed":
        return claim | failed | {"message": HIDDEN_FAILED, "hint": claim["hint"]}
    return claim


def main():
    folder, control, requests, limits = sys.argv[1:]
    lab = next(lab for lab in find_labs() if lab.path == Path(folder))
    control = socket.socket(fileno=int(control))
    requests = socket.socket(fileno=int(requests))
    judge = Judge(lab, control, requests, Limits(**json.loads(limits)))
    os.chdir(ROOT)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:logging", "-s"]
    options += [
        "--tb=line",
        "--timeout=0",
        "--rootdir",
        str(ROOT),
        "-c",
        str(ROOT / "pytest.ini"),
    ]
    code = pytest.main([str(lab.file("test_lab")), *options], plugins=[judge])
    judge.answer({"ready": False, "problem": f"pytest ended with status {int(code)}"})


if __name__ == "__main__":
    main()
