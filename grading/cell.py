"""One cold bubblewrap for one hand-in: started, given one file, thrown away.

It sees, read-only, the system's and Python's folders, installed packages, labkit, collectives.py
and what the lab gives its learners; no test, no solution, no mistake, no hint, no hand-in. It has
no network, no capability, its own processes and a small disk in memory. What its processes take is
looked at from outside, twenty times a second, and too much of it ends them all.
"""

import contextlib
import functools
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy

from grading.text import Problem
from grading.within.wire import Link
from labkit.loading import ROOT

WITHIN = Path(__file__).parent / "within"
COURSE = "/tmp/course"
GIVEN_FOLDERS = ("given", "captures", "configs", "incidents")
GIVEN_FILES = (".json", ".jsonl", ".csv", ".txt", ".md", ".py")
KEPT_BACK = ("solution", "starter", "test_lab", "mistakes", "hints")
ENVIRONMENT = {"HOME": "/tmp", "USER": "student", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SAME_DIGITS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # these decide the order of BLAS' sums
PACKAGES = Path(numpy.__file__).resolve().parents[1]
LOOK_S = 0.05
BURST_S = 10  # summed over those beyond Limits.busy
START_S = 60


class NoCell(Problem):
    """This machine makes no cell; str() is one sentence."""


@dataclass(frozen=True)
class Limits:
    """What one hand-in may use."""

    check_s: float = 10.0  # wall clock, one check
    all_s: float = 120.0  # wall clock, all checks together
    memory_bytes: int = 1 << 30  # resident, of all its processes together
    processes: int = 64
    threads: int = 256  # of all of them; on a busy machine some that are over have not gone yet
    busy: int = 4  # of them at work; more for BURST_S at most, or a neighbour's time runs out
    disk_bytes: int = 16 << 20  # in its /tmp; and of each file
    files: int = 500  # in its /tmp

    def of_a_process(self):
        """setrlimit's, by name."""
        return {
            "RLIMIT_AS": self.memory_bytes + (2 << 30),  # numpy reserves more than it touches
            "RLIMIT_CPU": int(self.all_s) + 1,
            "RLIMIT_FSIZE": self.disk_bytes,
            "RLIMIT_NOFILE": 256,
            "RLIMIT_NPROC": self.threads,
            "RLIMIT_SIGPENDING": 64,
            "RLIMIT_CORE": 0,
            "RLIMIT_MEMLOCK": 0,
            "RLIMIT_MSGQUEUE": 0,
        }


@functools.cache
def command(lab, limits):
    """bwrap with its arguments, up to the number of the socket's descriptor."""
    prefix = Path(sys.base_prefix).resolve()
    flags = "--unshare-all --unshare-user --disable-userns --die-with-parent --new-session"
    flags += " --cap-drop ALL --uid 1000 --gid 1000 --hostname sandbox --ro-bind /usr /usr"
    words = [shutil.which("bwrap") or "bwrap", *flags.split()]
    for path in ("/lib", "/lib64", "/bin", "/etc/ld.so.cache"):
        link = os.path.islink(path)
        words += ["--symlink", os.readlink(path), path] if link else ["--ro-bind-try", path, path]
    if not prefix.is_relative_to("/usr"):
        words += ["--ro-bind", str(prefix), str(prefix)]
    words += ["--ro-bind", str(PACKAGES), "/packages", "--ro-bind", str(WITHIN), "/within"]
    if any(ROOT.is_relative_to(shown) for shown in ("/usr", "/bin", "/lib", "/lib64", prefix)):
        words += ["--tmpfs", str(ROOT), "--remount-ro", str(ROOT)]
    words += ["--dev", "/dev", "--size", str(limits.disk_bytes), "--tmpfs", "/tmp"]
    words += ["--size", str(1 << 20), "--tmpfs", "/dev/shm"]  # for semaphores
    labs = f"{COURSE}/{lab.path.parent.relative_to(ROOT)}"
    own = f"{labs}/{lab.name}"
    words += ["--ro-bind", str(ROOT / "labkit"), f"{COURSE}/labkit", "--dir", own]
    given = [path for path in lab.path.iterdir() if _is_given(path)]
    for path in given:
        words += ["--ro-bind", str(path), f"{own}/{path.name}"]
    for shared in lab.path.parent.glob("*.py"):  # collectives, arguments
        words += ["--ro-bind", str(shared), f"{labs}/{shared.name}"]
    words += ["--chdir", COURSE, "--remount-ro", "/dev", "--remount-ro", "/", "--"]
    words += [str(Path(sys.executable).resolve()), "-ISB", "-Wignore", "/within/worker.py"]
    return [*words, own, json.dumps(limits.of_a_process())]


def _is_given(path):
    if path.is_dir():
        return path.name in GIVEN_FOLDERS
    return path.suffix in GIVEN_FILES and path.stem not in KEPT_BACK


class Cell:
    """The processes of one hand-in; `link` leads to the first of them."""

    def __init__(self, lab, limits):
        self.limits, self.why, self.burst_s = limits, "", 0.0
        ours, theirs = socket.socketpair()
        self.link = Link(ours)
        told = {name: os.environ[name] for name in SAME_DIGITS if name in os.environ}
        ours.settimeout(START_S)
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [*command(lab, limits), str(theirs.fileno())],
                    env=ENVIRONMENT | ONE_THREAD | told,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=[theirs.fileno()],
                )
            except OSError as error:
                install = "install bubblewrap 0.8 or later (apt-get install bubblewrap)"
                raise NoCell(f"bwrap cannot be started ({error.strerror}): {install}") from None
        try:
            self.link.receive()
        except (EOFError, OSError, ValueError):
            self.close()
            said = " ".join(self.process.stderr.read().decode(errors="replace").split())
            raise NoCell(
                f"bubblewrap makes no cell here ({said[-300:] or 'it does not answer'}): it needs "
                "version 0.8 or later and user namespaces"
            ) from None
        ours.settimeout(None)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        floor = _available_bytes() // 8
        while self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError, IndexError):
                self.why = self.why or self._too_much(floor)
            if self.why:
                return self.process.kill()
            time.sleep(LOOK_S)

    def _too_much(self, floor):
        threads = memory = busy = 0
        pids = [self.process.pid]
        for pid in pids:
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
                memory += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                for task in Path(f"/proc/{pid}/task").iterdir():
                    pids += map(int, (task / "children").read_text().split())
                    threads += 1
                    busy += (task / "stat").read_text().rpartition(") ")[2].startswith("R")
        if len(pids) > self.limits.processes + 2:
            return f"had more than {self.limits.processes} processes"
        if threads > self.limits.threads + 2:
            return f"had more than {self.limits.threads} threads"
        if memory * resource.getpagesize() > self.limits.memory_bytes:
            return f"used more than {self.limits.memory_bytes >> 20} MiB of memory"
        if _available_bytes() < floor:
            os._exit(1)  # whose doing it is cannot be known: both are graded again
        self.burst_s = max(0.0, self.burst_s + (busy - self.limits.busy) * LOOK_S)
        if self.burst_s > BURST_S:
            return f"kept more than {self.limits.busy} processors busy"
        disk = os.statvfs(f"/proc/{pids[-1]}/root/tmp")
        if disk.f_files - disk.f_ffree > self.limits.files:
            return f"made more than {self.limits.files} files"
        return ""

    def end(self):
        """End it; what it did to end before, to be read after its name, or ""."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self.process.wait(1)
            self.why = self.why or f"ended its whole process with exit status {status}"
        self.close()
        return self.why

    def close(self):
        self.process.kill()
        self.process.wait()
        self.link.close()


def _available_bytes():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
