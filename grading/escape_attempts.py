"""What `doctor` tries from inside a sandbox: the layers are believed only if they refuse."""

import secrets
from contextlib import closing
from pathlib import Path

from grading.limits import Limits
from grading.problem import Problem
from grading.remote import Incident, Infrastructure, RemoteLab
from grading.sandbox import Cell
from labkit.loading import ROOT

ATTEMPTS = """
import ctypes, fcntl, mmap, os, socket, subprocess, sys

LIBC = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


ATTEMPTS = {
    "read the instructor's home": lambda: os.listdir(HOME),
    "read the course's tests": lambda: open(TESTS).read(),
    "read /etc/passwd": lambda: open("/etc/passwd").read(),
    "see other processes": lambda: os.listdir("/proc"),
    "open a network socket": lambda: socket.socket(socket.AF_INET),
    "open a local socket": lambda: socket.socket(socket.AF_UNIX),
    "start a process": os.fork,
    "run a program": lambda: subprocess.run(["true"], check=True),
    "replace itself by a program": lambda: os.execv("/usr/bin/true", ["true"]),
    "write to the root folder": lambda: open("/forged", "w"),
    "write to the grader's code": lambda: open(sys.path[0] + "/wire.py", "a"),
    "lease a file": lambda: fcntl.fcntl(os.open("/tmp/l", os.O_CREAT), 1024, fcntl.F_WRLCK),
    "fill the disk": lambda: [open("/tmp/a", "ab").write(bytes(1 << 20)) for _ in range(64)],
    "make many files": lambda: [open(f"/tmp/{i}", "w").close() for i in range(1000)],
    "allocate 8 GiB": lambda: bytearray(8 << 30),
    "allocate what its size does not show": lambda: mmap.mmap(-1, 4096),
    "signal the grader": lambda: os.kill(os.getppid(), 0) if os.getppid() else os.kill(2, 0),
    "trace a process": lambda: checked(LIBC.ptrace(0, 0, 0, 0)),
    "make a user namespace": lambda: checked(LIBC.unshare(0x10000000)),
    "mount a file system": lambda: checked(LIBC.mount(b"x", b"/tmp", b"tmpfs", 0, None)),
    "unmount one": lambda: checked(LIBC.umount2(b"/tmp", 2)),
    "change its user": lambda: os.setuid(0),
    "make a device": lambda: os.mknod("/tmp/device", 0o600 | 0o020000, os.makedev(1, 3)),
}


NAMES = list(ATTEMPTS)


def attempt(name):
    try:
        result = ATTEMPTS[name]()
    except MemoryError:
        return [True, "MemoryError"]
    except BaseException as error:
        return [True, f"{type(error).__name__}: {error}"]
    return [False, repr(result)[:60]]
"""


def attempt_escapes(machine):
    """(active layers, [(what, refused, detail)]) of a worker started on this machine."""
    limits = Limits(check_s=20, memory_bytes=512 << 20)
    names = f"HOME = {str(Path.home())!r}\nTESTS = {str(ROOT / 'conftest.py')!r}\n"
    source, attempts = (names + ATTEMPTS).encode(), []
    try:
        with closing(Cell(limits, machine, weak=True, number=secrets.randbelow(60))) as cell:
            how = cell.control, cell.worker_limits(), limits, None, "escape_attempts.py"
            with closing(RemoteLab(source, *how)) as remote:
                for name in remote.NAMES:
                    remote.begin_check()
                    try:
                        refused, detail = remote.attempt(name)
                    except Incident as incident:
                        refused, detail = True, f"{incident.kind}: {incident}"
                    attempts.append((name, bool(refused), str(detail)))
                return [*cell.layers, *remote.layers], attempts
    except Problem as error:
        return [], [("start a sandbox", False, str(error))]
    except Infrastructure as error:
        return [], [("start a worker", False, str(error))]
