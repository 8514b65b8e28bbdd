"""Grade one hand-in: the lab's pristine tests in plain pytest, the learner's file in a cold cell.

One pytest of each lab is collected once and forked for each hand-in; `grade` may be called from
several threads, each of which then uses a pytest of its own.
"""

import atexit
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from grading.cell import ONE_THREAD, PACKAGES, Limits, NoCell
from grading.within.wire import Link
from labkit.loading import ROOT, choose_lab, find_labs

USUAL = Limits()
MAX_TEXT = 4000
SLACK_S = 120  # of the tests' own work, beside the hand-in's
TRIES = 2  # a pytest may be lost to other causes than the hand-in
_idle = {}  # (lab, limits) -> pytests that wait


def grade(source: Path, lab: str, *, secret: str, limits: Limits = USUAL) -> dict:
    """labkit's entry of this lab (labkit.scoreboard), with `notes`, sentences, and `seconds`.

    secret: hexadecimal; mixed into what the checks draw, with the file's own hash. "" leaves the
    published numbers. NoCell when this machine makes no cell, RuntimeError when no result came.
    """
    lab, data, started = choose_lab(lab, find_labs()), source.read_bytes(), time.monotonic()
    entry = _inert(_from_tests(lab, data, secret, limits))
    entry |= {"file": source.name, "sha256": hashlib.sha256(data).hexdigest()}
    return entry | {"seconds": round(time.monotonic() - started, 2)}


def _from_tests(lab, data, secret, limits):
    idle = _idle.setdefault((lab, limits), [])
    for _ in range(TRIES):
        tests = idle.pop() if idle else _Pytest(lab, limits)
        try:
            (entry,) = tests.ask(limits.all_s + SLACK_S, data.decode("latin-1"), secret)
        except (OSError, EOFError) as error:  # a time-out is an OSError
            tests.close()
            why = f"no result came of the checks ({type(error).__name__})"
            continue
        idle.append(tests)
        if "no_cell" in entry:
            raise NoCell(entry["no_cell"])
        return entry
    raise RuntimeError(why)


def _inert(value):
    """Text that may be shown, but not act: no control or direction character, none too long."""
    if isinstance(value, str):
        return "".join(c if c.isprintable() or c == "\n" else " " for c in value[:MAX_TEXT])
    if isinstance(value, list):
        return [_inert(item) for item in value]
    return {key: _inert(item) for key, item in value.items()} if type(value) is dict else value


@contextlib.contextmanager
def _one_core():
    """A core that no other grader of this machine uses now; all, where there is none.

    The tests and a cell take turns: on two cores each would have to wake up the other's.
    """
    cores = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        for core in sorted(cores):
            held = stack.enter_context(socket.socket(socket.AF_UNIX))
            with contextlib.suppress(OSError):  # somebody else has the name
                held.bind(f"\0grading-core-{core}")
                cores = {core}
                break
        yield cores


class _Pytest:
    """The collected pytest of one lab, a process of its own (grading.proxy)."""

    def __init__(self, lab, limits):
        ours, theirs = socket.socketpair()
        self.link = Link(ours)
        words = [sys.executable, "-PBm", "pytest", str(lab.file("test_lab")), "-q", "--tb=line"]
        words += ["-ppytest_timeout", "-pgrading.proxy", "-pno:cacheprovider", "--capture=sys"]
        words += [f"--rootdir={ROOT}", f"-c{ROOT}/pytest.ini", "-otmp_path_retention_policy=none"]
        settings = {"socket": theirs.fileno(), "limits": asdict(limits)}
        environment = {"LAB_VLLM_PYTHON": "none", **os.environ, **ONE_THREAD}
        environment |= {"GRADING": json.dumps(settings), "LAB_IMPL": "starter"}
        environment |= {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        with theirs, tempfile.TemporaryFile() as said:
            self.process = subprocess.Popen(
                [*words, f"--timeout={limits.check_s}"],
                cwd=ROOT,
                env=environment | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(PACKAGES)))},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
            atexit.register(self.close)
            theirs.close()
            try:
                self.link.receive()  # it is ready
            except (OSError, EOFError):
                self.close()
                said.seek(0)
                why = " ".join(said.read().decode(errors="replace").split())[-400:]
                raise NoCell(f"the tests of {lab.name} do not start: {why}") from None

    def ask(self, timeout_s, *request):
        self.link.sock.settimeout(timeout_s)
        with _one_core() as cores:
            os.sched_setaffinity(self.process.pid, cores)  # and of its forks and their cells
            self.link.send(*request)
            return self.link.receive()

    def close(self):
        atexit.unregister(self.close)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.link.close()
