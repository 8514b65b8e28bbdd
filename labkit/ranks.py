"""Start one process per rank, wait for all of them, and leave none behind."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
HELPERS_S = 1.0  # multiprocessing's resource tracker, say, which unlinks shared memory


class RanksFailed(RuntimeError):
    """A rank failed, died or took too long; str() is one line for each rank that did."""


def run_processes(
    commands,
    folder,
    *,
    environments=None,
    timeout_s,
    grace_s=3.0,
    echo=None,
    on_start=None,
    start=None,
):
    """Run one command per rank at the same time; return when all have ended with status 0.

    A rank's output goes to folder/rank-N.log, but what rank `echo` prints goes to the screen.
    environments: one dict per rank, or None for this process's own. on_start is called once with
    the list of Popen objects. start: how a rank begins if not by itself (labkit.nursery). After the
    first failure the others have grace_s to say what they saw. Whatever happens, no rank is left:
    not after a failure, Ctrl-C, or a kill -9 of this process. Raises RanksFailed; a rank that
    printed a line "rank N: ..." is quoted by it.
    """
    folder = Path(folder)
    environments = environments or [None] * len(commands)
    logs = [folder / f"rank-{rank}.log" for rank in range(len(commands))]
    ranks = []
    try:
        for rank, (command, environment) in enumerate(zip(commands, environments, strict=True)):
            with logs[rank].open("wb") as log:
                out = None if rank == echo else log
                ranks.append((start or _start)(command, environment, out, log))
        if on_start:
            on_start(ranks)
        _wait(ranks, timeout_s, grace_s)
    finally:
        stopped = [rank for rank, process in enumerate(ranks) if process.poll() is None]
        _kill(ranks)
    if any(process.returncode for process in ranks):
        told = [
            f"rank {rank}: did not end by itself and was stopped"
            if rank in stopped
            else _sentence(rank, process.returncode, logs[rank])
            for rank, process in enumerate(ranks)
        ]
        raise RanksFailed("\n".join(filter(None, told)))


def _start(command, environment, out, err):
    # A session of its own, so that the rank's own children can be killed with it.
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
        preexec_fn=die_with_parent(os.getpid()),
    )


def die_with_parent(parent):
    """What a rank does before it starts: the kernel shall kill it when its launcher dies."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def ask_the_kernel():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return ask_the_kernel


def _wait(ranks, timeout_s, grace_s):
    deadline, failed = time.monotonic() + timeout_s, False
    while None in (statuses := [process.poll() for process in ranks]) and (
        time.monotonic() < deadline
    ):
        if not failed and any(statuses):
            failed = True
            deadline = min(deadline, time.monotonic() + grace_s)
        time.sleep(0.02)


def _kill(ranks):
    """End the ranks at once; their helpers get a second to clear away what a rank has left."""
    for process in ranks:
        process.kill()
        process.wait()
    patience = time.monotonic() + HELPERS_S
    for process in ranks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < patience:
                os.killpg(process.pid, 0)  # raises when nobody of the rank's session is left
                time.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)


def _sentence(rank, status, log):
    """What a failed rank said itself, or what happened to it; "" when it did not fail."""
    if not status:
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    own = [line for line in lines if line.startswith(f"rank {rank}: ")]
    if own:
        return own[-1]
    if status < 0:
        return f"rank {rank}: died of signal {-status} ({signal.Signals(-status).name})"
    return f"rank {rank}: ended with status {status}: {lines[-1] if lines else 'no message'}"
