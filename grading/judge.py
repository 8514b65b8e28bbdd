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
from labkit.loading import ROOT, Implementation, Lab, find_labs, load_module
from labkit.mistakes import read_bank
from labkit.plugin import STATE

ADDRESS_SPACE = 6144 * MIB
OWN_DATA = 1024 * MIB  # what the judge itself may fill; the labs need 110 MiB
OWN_S = 1.0  # of its own processor time that a check gets when the submission's share is used up
ROUNDS = 3  # published, hidden, carried over: the submission's time is for each
SLACK_S = 60  # of the judge's own work, over the submission's time
# worst first: a claim is as good as its worst case
ORDER = (
    "protocol",
    "memory",
    "timeout",
    "output",
    "crashed",
    "failed",
    "todo",
    "not_run",
    "passed",
)
HIDDEN_FAILED = (
    "passes on the published numbers, but not on others of the same shapes: compute the result "
    "from the arguments, whatever they are"
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
            claim = self.expected.setdefault(
                item.originalname,
                {
                    "name": item.originalname,
                    "text": clean((item.function.__doc__ or item.name).strip().split("\n")[0]),
                    "points": points.args[0],
                    "waits_for": sorted(
                        {name for mark in item.iter_markers("waits_for") for name in mark.args}
                    ),
                    "cases": [],
                },
            )
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
        """In the fork: every check, and a passed one again where that could change its outcome:
        with changes of arguments carried over, with hidden numbers."""
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
        again, carried = [], []
        try:
            for item in self.items:
                self.say({"begins": item.nodeid})
                numbers.draws = 0
                passed = self.check(item)
                calls = self.calls
                if self.remote.infrastructure:
                    break
                if passed and self.remote.changed_arguments:
                    carried.append(item)
                if passed and request["seed"]:
                    again.append((item, numbers.draws, calls))
            self.remote.drain()
            self.remote.renew_time()
            for item, draws, calls in again:
                if self.remote.infrastructure:
                    break
                self.say({"begins": item.nodeid})
                seed, compared = bytes.fromhex(request["seed"]), True
                if draws:
                    numbers.secret = seed
                    self.check(item, hidden=True)
                    numbers.secret = None
                else:
                    compared = self.check_elsewhere(item, calls, seed + item.nodeid.encode())
                self.say({"rechecked": item.nodeid, "compared": compared})
            self.remote.renew_time()
            for item in carried:
                if self.remote.infrastructure:
                    break
                self.say({"begins": item.nodeid})
                self.check(item, carry_over=True)
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

    def pytest_exception_interact(self, node, call, report):
        if isinstance(call.excinfo.value, MemoryError):
            self.overrun = Incident("memory", LARGE)

    def check(self, item, hidden=False, carry_over=False):
        """One run of one check; it counts only together with the check's other runs."""
        self.phases, self.claim, self.calls = [], None, []
        self.remote.begin_check(carry_over, hidden)
        if hidden or carry_over:
            item._initrequest()  # pytest keeps a used request: a second run needs a fresh one
        with self.own_work():
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if self.overrun:
            gc.collect()
            with contextlib.suppress(Exception):
                item.session._setupstate.teardown_exact(None)  # if it was cut short
        incident = self.what_happened
        report = {
            "check": item.nodeid,
            "hidden": hidden,
            "again": hidden or carry_over,
            "changed": self.remote.changed_arguments,
            "phases": self.phases,
            "claim": self.claim,
            "incident": incident and {"kind": incident.kind, "message": clean(incident)},
        }
        self.say(report)
        return self.phases == ALL_PASSED and not incident

    def check_elsewhere(self, item, calls, seed):
        """Some of the check's calls again, with a number changed, against the solution.

        False if there was no call that could be compared.
        """
        self.remote.begin_check(hidden=True)
        agreed = False
        with self.own_work():
            agreed = agrees_elsewhere(calls, self.solution, self.remote, seed)
        if agreed is None:
            return False
        incident = self.what_happened
        outcome = "passed" if agreed else "failed"
        self.say(
            {
                "check": item.nodeid,
                "hidden": True,
                "again": True,
                "phases": ALL_PASSED,
                "claim": {"outcome": outcome, "message": "", "hint": "", "broken": ""},
                "incident": incident and {"kind": incident.kind, "message": clean(incident)},
            }
        )
        return True

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
    "printed", "hidden_checks", "hidden_notes"}; the notes are for the instructor alone. A check
    that reported nothing earns nothing, and if it is not the submission's doing, the result is
    `infrastructure`, not a zero. A case that passed earns only after every other run that it was
    due: with changes carried over, and, if `hidden`, the hidden.
    """
    cases, rechecked, running, done, notes, layers = {}, set(), None, None, [], None
    for line in lines:
        if "begins" in line:
            running = line["begins"]
        elif "layers" in line:
            layers = line["layers"]
        elif "rechecked" in line:
            rechecked.add(line["rechecked"])
            if not line["compared"]:
                notes.append(f"{line['rechecked'].split('::')[-1]}: not re-checked")
        elif "check" in line:
            cases.setdefault(line["check"], []).append(line)
            if line["hidden"] and line["incident"]:
                notes.append(f"{line['check'].split('::')[-1]}: {line['incident']['kind']}")
        elif "done" in line:
            done = line
    problem = done["infrastructure"] if done else ""
    if not done and not late:
        problem = f"the judge ended during {running} (exit status {exit_code})"
    claims = []
    for claim in expected.values():
        outcomes = []
        for case in claim["cases"]:
            if case in cases:
                found = [_outcome(report) for report in cases[case]]
                outcomes += found
                changed = any(report.get("changed") for report in cases[case])
                again = any(report["again"] and not report["hidden"] for report in cases[case])
                owed = changed and not again or hidden and case not in rechecked
                if owed and all(outcome[0] == "passed" for outcome in found):
                    if late:
                        outcomes.append(("timeout", LATE, "", ""))
                    else:
                        problem = problem or f"{case} was not run again"
            elif late:
                outcomes.append(("timeout", LATE, "", ""))
            else:
                problem = problem or f"{case} was never reported"
        first = [r for case in claim["cases"] for r in cases.get(case, []) if not r["again"]]
        if len(first) != len(claim["cases"]) and not late:
            problem = problem or f"{claim['name']} was not reported once"
        worst = min(outcomes, key=lambda o: ORDER.index(o[0]), default=("failed", "", "", ""))
        outcome, message, hint, broken = worst
        kept = {key: claim[key] for key in ("name", "text", "points", "waits_for")}
        found = {"outcome": outcome, "message": message, "hint": hint, "broken": broken}
        claims.append(kept | found | {"earned": claim["points"] if outcome == "passed" else 0})
    texts = {claim["name"]: claim for claim in claims}
    for claim in claims:
        blocking = [
            name
            for name in claim["waits_for"]
            if name in texts and texts[name]["outcome"] != "passed"
        ]
        if claim["outcome"] == "failed" and blocking and not claim["broken"]:
            text = texts[blocking[0]]["text"]
            claim |= {"outcome": "waits", "message": f"waits for: {text}", "hint": ""}
    return {
        "status": "infrastructure" if problem else "graded",
        "problem": problem,
        "score": 0 if problem else sum(claim["earned"] for claim in claims),
        "not_run": sum(claim["points"] for claim in claims if claim["outcome"] == "not_run"),
        "claims": [{key: claim[key] for key in claim if key != "waits_for"} for claim in claims],
        "layers": layers or [],
        "printed": (done or {}).get("printed", ""),
        "hidden_checks": sum(line.get("hidden", False) for line in lines),
        "hidden_notes": [clean(note) for note in notes],
    }


def _outcome(report):
    """(outcome, message, hint, why the file is broken) of one report of one case."""
    claim = report["claim"] or {"outcome": "failed", "message": "", "hint": "", "broken": ""}
    outcome = claim["outcome"]
    if report["incident"] and report["hidden"]:
        return "failed", HIDDEN_FAILED, "", ""  # how it ended could tell the hidden numbers
    if report["incident"]:
        message = report["incident"]["message"]
        broken = message if claim["broken"] else ""
        return report["incident"]["kind"], message, "", broken
    if outcome == "passed" and report["phases"] != ALL_PASSED:
        return "failed", "the check did not run to its end", "", ""
    if outcome not in ("passed", "failed", "todo", "not_run"):
        return "failed", "the check reported something else than an outcome", "", ""
    if report["hidden"] and outcome != "passed":
        return "failed", HIDDEN_FAILED, claim["hint"], ""
    return outcome, claim["message"], claim["hint"], claim["broken"]


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
        "-o",
        "timeout=0",
        "--rootdir",
        str(ROOT),
        "-c",
        str(ROOT / "pytest.ini"),
    ]
    code = pytest.main([str(lab.file("test_lab")), *options], plugins=[judge])
    judge.answer({"ready": False, "problem": f"pytest ended with status {int(code)}"})


if __name__ == "__main__":
    main()
