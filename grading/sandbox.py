"""A cell: bubblewrap around a warm fork server, and what this machine offers to build one from.

The fork server (inside/fork_server.py) forks one worker per submission, each in namespaces of its
own. The cell's files are read-only: an interpreter, numpy, pytest, labkit, the folder `inside`, and
of the course collectives.py and each lab's given modules and data; no test, no solution, no
submission. A submission arrives through the worker's socket.
"""

import compileall
import contextlib
import importlib.util
import json
import os
import platform
import py_compile
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grading.inside import walls
from grading.limits import Limits
from grading.problem import Problem
from labkit.loading import ROOT, find_labs

INSIDE = Path(__file__).parent / "inside"
# What a learner's file may import here as at home; they are Python alone but for numpy.
PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")
PACKAGES = ("numpy", *PYTEST, "labkit")
GIVEN_FOLDERS = ("given", "captures", "configs", "incidents")
GIVEN_FILES = (".json", ".jsonl", ".csv", ".txt", ".md", ".py")
KEPT_BACK = ("solution", "starter", "test_lab", "mistakes", "hints")
UNCHECKED_HASH = py_compile.PycInvalidationMode.UNCHECKED_HASH
NAMESPACES = ("user", "mount", "pid", "net", "ipc", "uts")
# A grade counts as isolated only behind all of these.
REQUIRED = ("bubblewrap", *NAMESPACES, "tmpfs", "rlimits", "no new privileges", "seccomp")
OPTIONAL = ("landlock", "no capabilities", "own uid")
FIRST_UID = 1_500_000_000  # belongs to nobody; each cell of a root grader uses another one


@dataclass(frozen=True)
class Machine:
    """What is there to build from."""

    bwrap: str | None
    namespaces: bool
    seccomp: bool
    landlock_abi: int
    root: bool
    missing: dict  # layer -> why it is not there

    @property
    def layers(self):
        found = ["namespaces"] if self.bwrap and self.namespaces else []
        found += ["seccomp"] if self.seccomp else []
        return found + (["landlock"] if self.landlock_abi else [])

    @property
    def refusal(self):
        """Why submissions cannot be isolated here, in one sentence; "" if they can."""
        if {"namespaces", "seccomp"} <= set(self.layers):
            return ""
        reasons = "; ".join(f"{layer}: {why}" for layer, why in self.missing.items())
        return (
            f"this machine cannot isolate a submission ({reasons}). `python -m grading doctor` "
            "says more; --allow-weak-sandbox grades anyway and marks every record"
        )


def inspect_machine() -> Machine:
    """Look, and try: a layer counts only if using it worked."""
    missing = {}
    bwrap = shutil.which("bwrap")
    namespaces = False
    if not bwrap:
        missing["bubblewrap"] = "not installed; Debian and Ubuntu: apt-get install bubblewrap"
    elif sys.platform == "linux":
        try:
            command = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--cap-add", "ALL", "true"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=20)
            namespaces = done.returncode == 0
            if not namespaces:
                missing["namespaces"] = done.stderr.strip() or "bwrap failed"
        except (OSError, subprocess.TimeoutExpired) as error:
            missing["namespaces"] = str(error)
    seccomp = Path("/proc/self/status").exists() and "Seccomp:" in _read("/proc/self/status")
    if seccomp and platform.machine() not in ("x86_64", "aarch64"):
        seccomp, missing["seccomp"] = False, f"no system-call table for {platform.machine()}"
    elif not seccomp:
        missing["seccomp"] = "not in this kernel"
    abi = walls.landlock_abi() if sys.platform == "linux" else 0
    if not abi:
        missing["landlock"] = "not in this kernel (5.13 or later, lsm=landlock)"
    return Machine(bwrap, namespaces, seccomp, abi, os.getuid() == 0, missing)


def _read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _readable():
    """Host folders a worker may read, besides `inside`: the interpreter, and packages."""
    found = [importlib.util.find_spec(name) for name in PACKAGES]
    files = [Path(spec.origin).resolve() for spec in found if spec]
    packages = [file.parent if file.stem == "__init__" else file for file in files]
    libraries = packages[0].parent / "numpy.libs"
    if libraries.is_dir():
        packages.append(libraries)
    return Path(sys.base_prefix).resolve(), packages


def _lay_out_course(folder):
    """What a learner's file may import or read beside itself, copied into `folder`."""
    for lab in find_labs():
        shutil.copy(lab.path.parent / "collectives.py", folder)
        own = Path(folder, lab.name)
        own.mkdir()
        for path in lab.path.iterdir():
            if path.is_dir() and path.name in GIVEN_FOLDERS:
                shutil.copytree(path, own / path.name, ignore=shutil.ignore_patterns("__pycache__"))
            elif path.suffix in GIVEN_FILES and path.stem not in KEPT_BACK:
                shutil.copy(path, own)
    compileall.compile_dir(folder, quiet=2, invalidation_mode=UNCHECKED_HASH)
    for path in (Path(folder), *Path(folder).rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def check_private(places: dict):
    """Problem if a worker could read one of `places`, which are paths by what they are."""
    prefix, packages = _readable()
    for what, place in places.items():
        for folder in ("/usr", "/bin", "/lib", "/lib64", prefix, *packages, INSIDE):
            if Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder)):
                raise Problem(
                    f"{what} {place} lies in {folder}, which every submission may read, as it "
                    "holds the system or the Python that runs it; move it elsewhere, such as /srv"
                )


def _open_to_all(prefix, packages):
    folders = [prefix, *packages]  # `inside` is loaded before the worker changes its user
    return all(
        part.stat().st_mode & 0o001 for folder in folders for part in (folder, *folder.parents)
    )


def _pipe(reader, writer):
    """A pipe whose two ends are closed with these exit stacks."""
    ends = os.pipe()
    for stack, end in zip((reader, writer), ends, strict=True):
        stack.callback(os.close, end)
    return ends


class Cell:
    """One running fork server. `control` is the socket on which workers are asked for."""

    def __init__(self, limits: Limits, machine: Machine, weak=False, number=0):
        self.limits, self.machine = limits, machine
        self.weak = weak
        self.isolated = "namespaces" in machine.layers
        if machine.refusal and not weak:
            raise Problem(machine.refusal)
        check_private({"the course": ROOT})
        # a user of its own can only be given what everybody may read
        mapped = machine.root and (self.isolated or _open_to_all(*_readable()))
        self.cpu = sorted(os.sched_getaffinity(0))[number % len(os.sched_getaffinity(0))]
        self.uid = FIRST_UID + (os.getpid() * 64 + number) % 100_000_000 if mapped else None
        self.inner_uid = 1000 if mapped and self.isolated else self.uid
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.course = tempfile.TemporaryDirectory(prefix="grading-course-")
        self.course_inside = "/course" if self.isolated else self.course.name
        try:
            _lay_out_course(self.course.name)
            self._start(theirs)
        except BaseException:
            self.close()
            raise
        finally:
            theirs.close()

    @property
    def layers(self):
        """The layers around every worker that the cell itself adds."""
        found = ["bubblewrap"] if self.isolated else []
        return found + (["own uid"] if self.uid is not None else [])

    def worker_limits(self, lab=None) -> bytes:
        """The request for one worker, beside which the given files of the lab of that name lie."""
        wanted = "memory_bytes address_space_bytes processes disk_bytes files cpu_s".split()
        request = {name: getattr(self.limits, name) for name in wanted}
        request |= {"uid": self.inner_uid, "lab": lab and f"{self.course_inside}/{lab}"}
        return json.dumps(request).encode()

    def _start(self, theirs):
        prefix, packages = _readable()
        python = str(Path(sys.executable).resolve())
        if self.isolated:
            paths = ["/inside", "/packages", "/course"]
            readable = [str(prefix), "/usr", "/lib", "/lib64", *paths]
        else:
            paths = [str(INSIDE), *{str(path.parent) for path in packages}, self.course.name]
            readable = [str(prefix), "/usr", "/lib", "/lib64", *paths, *map(str, packages)]
        inside = ("/inside", "/packages", "/course")
        readable = [p for p in readable if p in inside or os.path.exists(p)]
        start = f"import sys; sys.path[:0] = {paths!r}; import fork_server; fork_server.main()"
        config = json.dumps(
            {"layers": self.machine.layers, "readable": readable, "control": theirs.fileno()}
        )
        command = [python, "-I", "-S", "-B", "-c", start, config]
        environment = {
            "PATH": "/usr/bin:/bin",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "LANG": "C.UTF-8",
            "HOME": "/tmp",
        }
        keep = [theirs.fileno()]
        with contextlib.ExitStack() as ours:
            with contextlib.ExitStack() as given:
                if self.isolated:
                    info, info_theirs = _pipe(ours, given)
                    block_theirs, block = _pipe(given, ours)
                    keep += [info_theirs, block_theirs]
                    command = self._bwrap(prefix, packages, info_theirs, block_theirs) + command
                self.process = subprocess.Popen(
                    command,
                    env=environment,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    pass_fds=keep,
                )
            self._pin(self.process.pid)
            if self.isolated:
                self._map_users(info, block)
        self.control.settimeout(30)
        try:
            ready = self.control.recv(64)
        except (TimeoutError, ConnectionError):
            ready = b""
        if ready != b"ready":
            self.process.kill()
            why = self.process.stderr.read().decode(errors="replace").strip()[-400:]
            raise Problem(f"the sandbox did not start: {why or 'no answer within 30 s'}")
        self.control.settimeout(None)

    def _bwrap(self, prefix, packages, info, block):
        command = [
            self.machine.bwrap,
            *("--unshare-all", "--unshare-user", "--cap-add", "ALL"),
            *("--die-with-parent", "--new-session", "--hostname", "sandbox"),
            *("--info-fd", str(info), "--userns-block-fd", str(block)),
            *("--ro-bind", "/usr", "/usr"),
        ]
        for path in ("/lib", "/lib64", "/bin"):
            if os.path.islink(path):
                command += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                command += ["--ro-bind", path, path]
        command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
        if not prefix.is_relative_to("/usr"):
            for parent in reversed(prefix.parents[:-1]):  # bwrap would make them mode 0700
                command += ["--perms", "0755", "--dir", str(parent)]
            command += ["--ro-bind", str(prefix), str(prefix)]
        command += ["--perms", "0755", "--dir", "/packages"]
        for folder in packages:
            command += ["--ro-bind", str(folder), f"/packages/{folder.name}"]
        command += ["--ro-bind", str(INSIDE), "/inside"]
        command += ["--ro-bind", self.course.name, "/course"]
        command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/"]
        # nothing that one submission writes may be there for the next
        return command + ["--remount-ro", "/dev", "--remount-ro", "/", "--"]

    def _map_users(self, info, block):
        """Give the fork server uid 0 of its namespace and, if we are root, the workers another."""
        text = b""
        while not text.strip().endswith(b"}"):
            chunk = os.read(info, 4096)
            if not chunk:
                why = self.process.stderr.read().decode(errors="replace").strip()[-400:]
                raise Problem(f"bwrap failed: {why}")
            text += chunk
        child = json.loads(text)["child-pid"]
        self._pin(child)
        uid, gid = os.getuid(), os.getgid()
        uids, gids = f"0 {uid} 1\n", f"0 {gid} 1\n"
        if self.uid is not None:
            uids += f"1000 {self.uid} 1\n"
            gids += f"1000 {self.uid} 1\n"
        try:
            if self.uid is None:
                Path(f"/proc/{child}/setgroups").write_text("deny")
            Path(f"/proc/{child}/uid_map").write_text(uids)
            Path(f"/proc/{child}/gid_map").write_text(gids)
        except OSError as error:
            raise Problem(f"the user namespace cannot be set up: {error}") from None
        os.write(block, b"1")

    def _pin(self, pid):
        """Keep a worker on its judge's processor: they take turns, and never work at once."""
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, {self.cpu})

    def close(self):
        process = getattr(self, "process", None)
        if process is not None:
            process.kill()
            process.wait()
            process.stderr.close()
        self.control.close()
        self.course.cleanup()
