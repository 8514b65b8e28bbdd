"""Start one process per rank, wait for all of them, and leave none behind.

    run_processes("rank.py", [["0"], ["1"]], folder, timeout_s=60)

A launcher imports rank.py once, with Torch or vLLM, whose import takes longer than all the rest;
each rank is a fork of it, which calls its main() with the words of its own as sys.argv. (With the
standard library's forkserver a program has one for all its life, of one interpreter: not enough.)
"""

import contextlib
import ctypes
import gc
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, CLONE_NEWNET = 1, 0x40000000  # linux/prctl.h, linux/sched.h
HELPERS_S = 1.0  # multiprocessing's resource tracker, say, which unlinks shared memory
NETWORK = "LAB_NETWORK_NAMESPACE"  # in a rank's environment: the file of the one that it enters


class RanksFailed(RuntimeError):
    """A rank failed, died or took too long; str() is one line for each rank that did."""


def run_processes(
    program,
    words,
    folder,
    *,
    timeout_s,
    grace_s=3.0,
    interpreter=sys.executable,
    environments=None,
    echo=None,
    on_start=None,
):
    """Run main() of the file `program` once for each of `words`, all at the same time.

    A rank's output goes to folder/rank-N.log, but what rank `echo` prints goes to the screen; what
    the import prints goes to folder/import.log. environments: one dict per rank, or None for this
    process's own. on_start is called once with the list of pids. timeout_s counts from there; after
    the first failure the others have grace_s to say what they saw. Whatever happens, no rank is
    left: not after a failure, Ctrl-C, or a kill -9 of this process. Raises RanksFailed; a rank
    that printed a line "rank N: ..." is quoted by it.
    """
    environments = environments or [dict(os.environ)] * len(words)
    job, log = Path(folder, "ranks.json"), Path(folder, "import.log")
    ranks = [[str(program), *own] for own in words]
    job.write_text(json.dumps([ranks, environments, str(folder), timeout_s, grace_s, echo]))
    launcher, told = _launcher(interpreter, job, environments[0], log)
    try:
        with os.fdopen(told) as lines:
            pids = lines.readline()  # comes when the import is done
            if pids and on_start:
                on_start(json.loads(pids))
            failed = lines.read()
    finally:
        launcher.terminate()
        launcher.wait()
    if not pids:
        said = log.read_text(errors="replace").strip().splitlines()
        failed = f"rank 0: could not be started: {said[-1] if said else 'no message'}"
    if failed:
        raise RanksFailed(failed)


def _launcher(interpreter, job, environment, log):
    """(its process, the descriptor of the pipe that it writes to)."""
    told, tell = os.pipe()
    with log.open("wb") as err:
        launcher = subprocess.Popen(
            [interpreter, __file__, str(job), str(tell)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=err,
            pass_fds=[tell],
            start_new_session=True,
            preexec_fn=partial(die_with_parent, os.getpid(), signal.SIGTERM),
        )
    os.close(tell)
    return launcher, told


def die_with_parent(parent, how=signal.SIGKILL):
    """The kernel shall end this process when the one that started it dies."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, how)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)


# --- in the launcher ------------------------------------------------------------------------------


def _launch(job, tell):
    """Import the program, run its ranks; write their pids and what failed to `tell`, a pipe."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # ends the ranks' own children too
    words, environments, folder, timeout_s, grace_s, echo = json.loads(Path(job).read_text())
    how = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    if how.get_start_method() == "fork":
        gc.disable()  # an import makes a million objects and no garbage
        with contextlib.redirect_stdout(sys.stderr):
            _program(words[0])
        gc.freeze()  # nor has a fork to look through them, or to copy their pages, to find its own
        gc.enable()
    logs = [Path(folder, f"rank-{rank}.log") for rank in range(len(words))]
    ranks = []
    try:
        for rank, log in enumerate(logs):
            arguments = (words[rank], environments[rank], str(log), rank == echo, os.getpid(), tell)
            process = how.Process(target=_become, args=arguments, name="MainProcess")
            process.start()
            ranks.append(process)
        os.write(tell, f"{json.dumps([rank.pid for rank in ranks])}\n".encode())
        _wait(ranks, time.monotonic() + timeout_s, grace_s)
    finally:
        stopped = [rank.exitcode is None for rank in ranks]
        _kill(ranks)
    told = [_sentence(*rank) for rank in zip(range(len(ranks)), ranks, stopped, logs, strict=True)]
    os.write(tell, "\n".join(filter(None, told)).encode())


def _program(words):
    """The module of a rank's file, as if it had been started by itself."""
    sys.path[0] = str(Path(words[0]).parent)
    return importlib.import_module(Path(words[0]).stem)


def _become(words, environment, log, echo, parent, tell):
    """What a fork does: the rest of its life is the rank's."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)
    with contextlib.suppress(OSError):  # a fork has it too
        os.close(tell)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (2,) if echo else (1, 2):
        os.dup2(out, stream)
    if NETWORK in environment:
        with open(environment[NETWORK]) as namespace:
            if LIBC.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "cannot enter a network namespace")
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    _program(words).main()


def _wait(ranks, deadline, grace_s):
    failed = False
    while None in (found := [rank.exitcode for rank in ranks]) and time.monotonic() < deadline:
        if not failed and any(found):
            failed = True
            deadline = min(deadline, time.monotonic() + grace_s)
        time.sleep(0.02)


def _kill(ranks):
    """End the ranks at once; their helpers get a second to clear away what a rank has left."""
    for rank in ranks:
        rank.kill()
        rank.join()
    until = time.monotonic() + HELPERS_S
    for rank in ranks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            while time.monotonic() < until:
                os.killpg(rank.pid, 0)  # raises when nobody of the rank's session is left
                time.sleep(0.01)
            os.killpg(rank.pid, signal.SIGKILL)


def _sentence(number, rank, stopped, log):
    """What a failed rank said itself, or what happened to it; "" when it did not fail."""
    if stopped:
        return f"rank {number}: did not end by itself and was stopped"
    if not rank.exitcode:
        return ""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    own = [line for line in lines if line.startswith(f"rank {number}: ")]
    if own:
        return own[-1]
    if rank.exitcode < 0:
        name = signal.Signals(-rank.exitcode).name
        return f"rank {number}: died of signal {-rank.exitcode} ({name})"
    last = lines[-1] if lines else "no message"
    return f"rank {number}: ended with status {rank.exitcode}: {last}"


if __name__ == "__main__":
    _launch(sys.argv[1], int(sys.argv[2]))
