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
from dataclasses import asdict, dataclass
from pathlib import Path

from grading.inside import walls
from grading.limits import ONE_THREAD, Limits
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
INNER_UID = 1000  # what that one is called within the namespaces
START_S = 30
ENVIRONMENT = {"HOME": "/tmp", "USER": "student", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
ARITHMETIC = ("OPENBLAS_", "MKL_", "NPY_")  # the last digits depend on these, as at home


@dataclass(frozen=True)
class Machine:
    """What is there to build from."""

    bwrap: str | None
    layers: tuple[str, ...]  # those of namespaces, seccomp and landlock that work
    missing: dict  # layer -> why it is not there

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
    bwrap, layers, missing = shutil.which("bwrap"), [], {}
    if not bwrap:
        missing["bubblewrap"] = "not installed; Debian and Ubuntu: apt-get install bubblewrap"
    else:
        command = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--cap-add", "ALL", "true"]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
            layers.append("namespaces")
        except subprocess.CalledProcessError as error:
            missing["namespaces"] = error.stderr.strip() or "bwrap failed"
        except (OSError, subprocess.TimeoutExpired) as error:
            missing["namespaces"] = str(error)
    if "Seccomp:" not in Path("/proc/self/status").read_text():
        missing["seccomp"] = "not in this kernel"
    elif platform.machine() not in walls.MACHINES:
        missing["seccomp"] = f"no system-call table for {platform.machine()}"
    else:
        layers.append("seccomp")
    if walls.landlock_abi():
        layers.append("landlock")
    else:
        missing["landlock"] = "not in this kernel (5.13 or later, lsm=landlock)"
    return Machine(bwrap, tuple(layers), missing)


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


class Cell:
    """One running fork server. `control` is the socket on which workers are asked for."""

    def __init__(self, limits: Limits, machine: Machine, weak=False, number=0):
        self.limits, self.machine, self.process = limits, machine, None
        self.isolated = "namespaces" in machine.layers
        if machine.refusal and not weak:
            raise Problem(machine.refusal)
        check_private({"the course": ROOT})
        # a user of its own can only be given what everybody may read
        mapped = os.getuid() == 0 and (self.isolated or _open_to_all(*_readable()))
        processors = sorted(os.sched_getaffinity(0))
        self.cpu = processors[number % len(processors)]
        self.uid = FIRST_UID + (os.getpid() * 64 + number) % 100_000_000 if mapped else None
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.course = tempfile.TemporaryDirectory(prefix="grading-course-")
        try:
            with theirs:
                _lay_out_course(self.course.name)
                self._start(theirs)
        except BaseException:
            self.close()
            raise

    @property
    def layers(self):
        """The layers around every worker that the cell itself adds."""
        found = ["bubblewrap"] if self.isolated else []
        return found + (["own uid"] if self.uid is not None else [])

    def worker_limits(self, lab=None) -> bytes:
        """The request for one worker, beside which the given files of the lab of that name lie."""
        uid = INNER_UID if self.uid is not None and self.isolated else self.uid
        course = "/course" if self.isolated else self.course.name
        more = {name: getattr(self.limits, name) for name in ("cpu_s", "address_space_bytes")}
        more |= {"uid": uid, "lab": lab and f"{course}/{lab}"}
        return json.dumps(asdict(self.limits) | more).encode()

    def _start(self, theirs):
        prefix, packages = _readable()
        paths = ["/inside", "/packages", "/course"]
        if not self.isolated:
            paths = [str(INSIDE), *{str(path.parent) for path in packages}, self.course.name]
        config = {
            "layers": self.machine.layers,
            "readable": [str(prefix), "/usr", "/lib", "/lib64", *paths],
            "control": theirs.fileno(),
        }
        start = f"import sys; sys.path[:0] = {paths!r}; import fork_server; fork_server.main()"
        command = [str(Path(sys.executable).resolve()), "-I", "-S", "-B", "-c", start]
        command.append(json.dumps(config))
        set_here = {name: os.environ[name] for name in os.environ if name.startswith(ARITHMETIC)}
        keep = [theirs.fileno()]
        # bwrap closes the ends by which it says who its child is and hears that users are mapped
        with theirs.dup() as info, theirs.dup() as block:
            if self.isolated:
                keep += [info.fileno(), block.fileno()]
                command = self._bwrap(prefix, packages, *keep[1:]) + command
            self.process = subprocess.Popen(
                command,
                env=ENVIRONMENT | set_here | ONE_THREAD,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=keep,
            )
        theirs.close()
        self._pin(self.process.pid)
        self.control.settimeout(START_S)
        if self.isolated:
            self._map_users()
        self._said()
        self.control.settimeout(None)

    def _said(self) -> bytes:
        """What the sandbox says next while it starts; a Problem if it does not."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            if said := self.control.recv(4096):
                return said
        self.process.kill()
        why = self.process.stderr.read().decode(errors="replace").strip()[-400:]
        raise Problem(f"the sandbox did not start: {why or f'no answer within {START_S} s'}")

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

    def _map_users(self):
        """Give the fork server uid 0 of its namespace and, if we are root, the workers another."""
        text = self._said()
        while not text.strip().endswith(b"}"):
            text += self._said()
        child = json.loads(text)["child-pid"]
        self._pin(child)
        maps = {"uid_map": f"0 {os.getuid()} 1\n", "gid_map": f"0 {os.getgid()} 1\n"}
        if self.uid is None:
            maps = {"setgroups": "deny"} | maps
        else:
            maps = {name: text + f"{INNER_UID} {self.uid} 1\n" for name, text in maps.items()}
        try:
            for name, text in maps.items():
                Path(f"/proc/{child}/{name}").write_text(text)
        except OSError as error:
            raise Problem(f"the user namespace cannot be set up: {error}") from None
        self.control.send(b"1")

    def _pin(self, pid):
        """Keep a worker on its judge's processor: they take turns, and never work at once."""
        with contextlib.suppress(OSError):
            os.sched_setaffinity(pid, {self.cpu})

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()
        self.control.close()
        self.course.cleanup()
