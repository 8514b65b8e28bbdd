"""What can be seen of running processes from outside, and what a recording knows of its run."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from labkit.loading import ROOT
from labkit.ranks import die_with_parent

KEPT = 12  # collectives of each rank before the end
STATES = {"R": "running", "S": "sleeping", "D": "disk sleep", "T": "stopped", "Z": "gone"}
CONNECTIONS = {"01": "ESTABLISHED", "02": "SYN-SENT", "0A": "LISTEN"}
GONE = {"state": "gone", "waits_in": "", "cpu_s": None, "stack": [], "sockets": []}


@dataclass
class Run:
    """Processes that have been started: what record() has to know of them."""

    folder: Path
    command: str
    address: str  # of the store
    pids: list
    ended: object  # called often: {rank: (exit, time)} of those that have ended
    log: object  # of a rank: its lines
    kept: int = KEPT
    groups: dict = field(default_factory=lambda: {"tp": [0, 1], "ep": [0, 1]})
    network: str = "127.0.0.0/8"
    answers: object = lambda: True  # whether the store does
    started_s: float = field(default_factory=time.time)
    see: object = lambda: None  # called at each look, for what there is besides the ranks
    besides: dict = field(default_factory=dict)


@contextlib.contextmanager
def running(commands, folder, **options):
    """The processes, each with its log in the folder; none is left, whatever happens."""
    processes, ends = [], partial(die_with_parent, os.getpid())
    options |= {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "preexec_fn": ends}
    try:
        for number, command in enumerate(commands):
            with (folder / f"log-{number}").open("wb") as log:
                one = subprocess.Popen(command, stdout=log, start_new_session=True, **options)
                processes.append(one)
        yield processes
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def look_at(pid, folder):
    """What can be seen of a process from outside; it may end while one looks."""
    stacks = folder / f"stacks-{pid}"
    try:
        before = stacks.stat().st_size
        os.kill(pid, signal.SIGUSR1)
        for _ in range(100):
            time.sleep(0.02)
            if stacks.stat().st_size > before:
                break
        time.sleep(0.1)  # several threads are written one after the other
        proc = Path(f"/proc/{pid}")  # `nsenter` becomes the rank itself
        words = (proc / "stat").read_text().rpartition(")")[2].split()
        return {
            "state": STATES[words[0]],
            "waits_in": (proc / "wchan").read_text(),
            "cpu_s": (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"),
            "stack": frames(stacks.read_text()[before:]),
            "sockets": _sockets(proc),
        }
    except (FileNotFoundError, ProcessLookupError):
        return GONE


def frames(text):
    """The main thread's frames, the innermost first, as "file:function"."""
    threads = re.split(r"(?m)^(?=(?:Current thread|Thread) )", text)
    main = [thread for thread in threads if thread.strip()][-1:]
    found = re.findall(r'File "([^"]+)", line \d+ in (.+)', "".join(main))
    return [f"{Path(path).name}:{function}" for path, function in found]


def _sockets(proc):
    """The process's TCP connections, as `ss -tnp` lists them."""
    mine = set()
    for link in (proc / "fd").iterdir():
        with contextlib.suppress(OSError):
            mine.add(os.readlink(link))
    found = []
    tables = [(proc / "net" / name).read_text() for name in ("tcp", "tcp6")]
    for line in [line for table in tables for line in table.splitlines()[1:]]:
        words = line.split()
        if f"socket:[{words[9]}]" in mine and words[3] in CONNECTIONS:
            local, remote = map(_address, words[1:3])
            found.append({"local": local, "remote": remote, "state": CONNECTIONS[words[3]]})
    return found


def _address(hexadecimal):
    host, port = hexadecimal.split(":")  # an IPv4 address is the end of its IPv6 form
    return f"{socket.inet_ntoa(bytes.fromhex(host[-8:])[::-1])}:{int(port, 16)}"


def tidy(text, folder, *more):
    """A log's lines without the folders of this machine and the frames of C++."""
    for path, name in (*more, (folder, "$RUN"), (sys.prefix, "$PYTHON"), (ROOT, "$COURSE")):
        text = text.replace(str(path), name)
    lines = [line for line in text.splitlines() if line and not line.startswith("frame #")]
    return [line[:400] for line in lines]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
