"""A place that grades: one cell (sandbox) and one warm judge per lab.

`Grader.grade` is a plain blocking call, the same on a laptop and on a cluster's worker.
"""

import base64
import contextlib
import hmac
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict

from grading.limits import ONE_THREAD, Limits
from grading.problem import Problem
from grading.roster import NOT_HANDED_IN
from grading.sandbox import OPTIONAL, REQUIRED, Cell, Machine, inspect_machine
from labkit.loading import ROOT, Lab

START_S = 60
ENVIRONMENT = {"LAB_IMPL": "starter", "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}


class Grader:
    """Grades one submission at a time. Close it."""

    def __init__(self, limits: Limits, weak=False, secret: bytes | None = None, number=0):
        self.limits, self.weak, self.secret, self.number = limits, weak, secret, number
        self.machine: Machine = inspect_machine()
        self.cell = None
        self.judges = {}
        self.claims = {}  # lab name -> the solution's, which passed the same checks

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for judge in self.judges.values():
            judge.close()
        self.judges = {}
        if self.cell is not None:
            self.cell.close()
            self.cell = None

    def grade_or_refuse(self, submission, lab: Lab) -> dict:
        """The result of a grading.submissions.Submission, which may be no file at all."""
        if submission.source is None:
            return self.refuse(submission.problem, lab)
        return self.grade(submission.source, lab)

    def grade(self, source: bytes, lab: Lab) -> dict:
        """The result of one submission (grading.judge.score), with how far it can be trusted.

        `status` is "infrastructure" when the grader failed three times: held, never a zero.
        """
        for _ in range(3):
            try:
                self._prove(lab)
                result = self._ask(lab, source)
            except (OSError, ValueError, Problem) as error:
                result = failure(str(error))
            if result["status"] == "graded":
                return self._stamp(result, ran=True)
            self.close()  # a fresh cell and fresh judges for the next try
        return self._stamp(result)

    def refuse(self, problem: str, lab: Lab) -> dict:
        """The result of a hand-in that is no readable file: every claim unearned, and why."""
        try:
            self._prove(lab)
        except (OSError, ValueError, Problem) as error:
            return self._stamp(failure(str(error)))
        outcome = "missing" if problem == NOT_HANDED_IN else "unreadable"
        why = {"outcome": outcome, "message": problem, "hint": "", "broken": problem}
        claims = [claim | why | {"earned": 0} for claim in self.claims[lab.name]]
        return self._stamp(failure("") | {"status": "graded", "claims": claims})

    def _stamp(self, result, ran=False):
        """`ran`: whether anything of the submission was executed, in whatever sandbox it was."""
        layers = sorted({*result["layers"], *(self.cell.layers if self.cell else ())})
        missing = [layer for layer in REQUIRED if layer not in layers]
        return result | {
            "layers": layers,
            "missing": missing + [layer for layer in OPTIONAL if layer not in layers],
            "integrity": "weak" if ran and missing else "isolated",
            "hidden_numbers": ran and self.secret is not None,
        }

    def _prove(self, lab):
        """Once: the solution, through the same sandbox, must pass all that can run here."""
        if lab.name in self.claims:
            return
        result = self._ask(lab, lab.file("solution").read_bytes())
        if result["status"] != "graded":
            raise Problem(result["problem"])
        wrong = [c for c in result["claims"] if c["outcome"] not in ("passed", "not_run")]
        if wrong:
            raise Problem(
                f"the solution of {lab.name} itself does not pass {wrong[0]['name']}: "
                f"{wrong[0]['message']}"
            )
        self.claims[lab.name] = result["claims"]

    def _ask(self, lab, source):
        if self.cell is None:
            self.cell = Cell(self.limits, self.machine, self.weak, self.number)
        if lab.name not in self.judges:
            self.judges[lab.name] = JudgeProcess(lab, self.cell, self.limits)
        seed = self.secret and hmac.digest(self.secret, lab.name.encode(), "sha256").hex()
        return self.judges[lab.name].grade(source, seed)


def failure(problem):
    """A result that is nobody's fault but the grader's."""
    return {
        "status": "infrastructure",
        "problem": problem,
        "score": 0,
        "not_run": 0,
        "claims": [],
        "layers": [],
        "printed": "",
    }


def another_course(prefix):
    return failure(f"this worker has another version of {prefix}'s course")


class JudgeProcess:
    """The warm pytest of one lab, in a process of its own."""

    def __init__(self, lab, cell, limits):
        self.name, self.cell, self.limits = lab.name, cell, limits
        self.requests, theirs = socket.socketpair()
        self.log = tempfile.TemporaryFile()
        command = [sys.executable, "-B", "-m", "grading.judge", str(lab.path)]
        command += [str(cell.control.fileno()), str(theirs.fileno()), json.dumps(asdict(limits))]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=[cell.control.fileno(), theirs.fileno()],
            env={**os.environ, **ONE_THREAD, **ENVIRONMENT},
        )
        theirs.close()
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self.process.pid, {cell.cpu})
        self.lines = self.requests.makefile("rb")
        ready = self._line(START_S)
        if not ready.get("ready"):
            problem = ready.get("problem", "it did not start")
            problem += " " + self._log_tail()
            self.close()
            raise Problem(f"the judge of {lab.name}: {problem}")

    def grade(self, source, seed):
        request = {
            "source": base64.b64encode(source).decode(),
            "seed": seed,
            "request": self.cell.worker_limits(self.name).decode(),
        }
        self.requests.sendall(json.dumps(request).encode() + b"\n")
        answer = self._line(4 * self.limits.submission_s + 90)  # the judge's own limit is less
        if "status" in answer:
            return answer
        return failure(f"the judge is gone: {answer.get('problem', '')} {self._log_tail()}")

    def _line(self, timeout_s):
        waiting = select.poll()  # which, unlike select.select, takes descriptors above 1023
        waiting.register(self.requests, select.POLLIN)
        if not waiting.poll(1000 * timeout_s):
            return {}
        line = self.lines.readline()
        return json.loads(line) if line.endswith(b"\n") else {}

    def _log_tail(self):
        self.log.seek(max(0, self.log.seek(0, 2) - 2000))
        return " ".join(self.log.read().decode(errors="replace").split())[-500:]

    def close(self):
        self.requests.close()
        self.lines.close()
        self.process.kill()
        self.process.wait()
        self.log.close()
