"""A warm Python with numpy, from which one sandboxed worker is forked per submission.

It never sees a test, a solution, a key or a verdict. A request on the control socket is a JSON
object and three descriptors: the worker's data socket, the pipe its output goes to, and a lifeline
on which the worker's monitor reports, and by whose end it knows that the grader is gone.

fork server: forks a monitor, outside the worker's namespaces, which watches its memory and kills it
monitor: forks the worker, process 1 of its own namespaces
"""

import ctypes.util  # noqa: F401  (imported before the walls go up, as is everything below)
import dataclasses  # noqa: F401
import fractions
import gc
import inspect  # noqa: F401
import json
import os
import resource
import select
import signal
import socket
import statistics  # noqa: F401
import sys
import time
import traceback
import types
import typing  # noqa: F401

import numpy as np
import numpy.fft
import numpy.linalg
import numpy.random
import walls
import wire
import worker

POLL_S = 0.05


REHEARSED = """
import numpy as np
from collectives import all_reduce

def layer(x, W, ranks):
    mine = [slice(r, r + 1) for r in range(ranks)]
    parts = [np.maximum(x[..., part] @ W[:, part].T, 0.0) for part in mine]
    return all_reduce(parts)[0].reshape(x.shape[0], -1)
"""


class Rehearsal:
    """A socket whose other end answers every question with two arrays."""

    def sendall(self, data):
        wire.decode(data[4:])

    def recv(self, size):
        return wire.frame(("value", [np.zeros((2, 2))] * 2))


def warm_up():
    """Rehearse what workers do, so that they inherit code the interpreter has optimised."""
    values = [None, True, 1, 1 << 70, 0.5, "x", b"x", fractions.Fraction(1, 3)]
    server = worker.Worker(worker.Link(Rehearsal()))
    server.module = types.ModuleType("rehearsed")
    exec(compile(REHEARSED, "rehearsed", "exec"), server.module.__dict__)
    for _ in range(30):
        server.do_call(1, "layer", (np.zeros((2, 2)), np.zeros((2, 2)), 2), {}, None)
        wire.decode(wire.encode((values, {"x": values})))


def main():
    config = json.loads(sys.argv[1])
    control = socket.socket(fileno=config["control"])
    program = walls.seccomp_program() if "seccomp" in config["layers"] else None
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # monitors report on their lifeline; no zombies
    warm_up()
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 65536, 3)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            try:
                monitor(config, json.loads(message), program, *descriptors)
            except BaseException:
                _report(descriptors[2], {"setup": traceback.format_exc(limit=3)})
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _report(lifeline, what):
    try:
        os.write(lifeline, json.dumps(what).encode())
    except OSError:
        pass  # nobody is left to tell


def monitor(config, limits, program, data, output, lifeline):
    """Start the worker in namespaces of its own, watch its memory, kill it, report how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    layers = config["layers"]
    uid = limits["uid"]
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        walls.stay_dumpable()
    uid, gid = os.getuid(), os.getgid()
    flags = 0
    if "namespaces" in layers:
        flags = walls.CLONE_NEWUSER | walls.CLONE_NEWNS | walls.CLONE_NEWPID
        flags |= walls.CLONE_NEWNET | walls.CLONE_NEWIPC | walls.CLONE_NEWUTS
    if flags:
        # The limit counts per user namespace. Set before, it bounds this one and those of the
        # submission's other workers together; each gets its own below.
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"] * walls.MAX_WORKERS,) * 2)
        walls.unshare(flags)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"1000 {uid} 1"),
            ("gid_map", f"1000 {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    ready, ready_in_worker = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ready)
        os.close(lifeline)
        try:
            active = close_the_walls(config, limits, program)
            os.write(ready_in_worker, json.dumps(active).encode())
        except BaseException:
            os.write(ready_in_worker, traceback.format_exc(limit=3).encode())
            os._exit(1)
        os.close(ready_in_worker)
        worker.serve(data, output, limits["lab"])
        os._exit(0)
    os.close(ready_in_worker)
    os.close(data)
    os.close(output)
    try:
        active = json.loads(_read_all(ready))
    except ValueError as problem:
        os.kill(child, signal.SIGKILL)
        _report(lifeline, {"setup": str(getattr(problem, "doc", problem))})
        return
    _report(lifeline, {"layers": active})
    reason = watch(child, lifeline, limits["memory_bytes"])
    if "namespaces" not in layers:
        _kill_group(child)
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    _, status, usage = os.wait4(child, 0)
    _report(
        lifeline,
        {
            "reason": reason,
            "exit": os.waitstatus_to_exitcode(status),
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_bytes": usage.ru_maxrss * 1024,
        },
    )


def _read_all(descriptor):
    data = b""
    while chunk := os.read(descriptor, 65536):
        data += chunk
    os.close(descriptor)
    return data


def _kill_group(worker):
    try:
        os.killpg(worker, signal.SIGKILL)
    except OSError:
        pass


def watch(worker, lifeline, memory_bytes):
    """Until the worker ends, the grader hangs up or the memory is too much; says which."""
    exited = os.pidfd_open(worker)
    poll = select.poll()
    poll.register(exited, select.POLLIN)
    poll.register(lifeline, select.POLLIN | select.POLLHUP)
    page = os.sysconf("SC_PAGE_SIZE")
    pause = POLL_S / 10
    while True:
        events = dict(poll.poll(pause * 1000))
        if exited in events:
            return "exited"
        if lifeline in events:
            return "told"
        pause = min(POLL_S, 2 * pause)
        try:
            with open(f"/proc/{worker}/statm") as file:
                resident = int(file.read().split()[1]) * page
        except OSError:
            time.sleep(0.001)
            continue
        if not resident:  # its first thread has ended; what the others use can no longer be seen
            return "exited"
        if resident > memory_bytes:
            return "memory"


def close_the_walls(config, limits, program):
    """Every layer around this process, in the order in which each can still be put up."""
    layers, active = config["layers"], []
    if "namespaces" in layers:
        walls.die_with_parent()
        active += ["user", "mount", "pid", "net", "ipc", "uts"]
        walls.sethostname("sandbox")
        size = f"size={limits['disk_bytes']},nr_inodes={limits['files']},mode=0700"
        walls.mount_tmpfs("/tmp", size)
        walls.mount_tmpfs("/dev/shm", "size=1m,nr_inodes=16,mode=0700")  # for semaphores
        nosuid = walls.MS_NOSUID | walls.MS_NODEV | walls.MS_NOEXEC
        walls.mount_tmpfs("/proc", "size=4k,nr_inodes=2", nosuid | walls.MS_RDONLY)
        active.append("tmpfs")
    os.setsid()  # kill(0) reaches a process group across namespaces: its own holds nobody else
    os.chdir("/tmp")
    for name, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits["cpu_s"]),
        (resource.RLIMIT_AS, limits["address_space_bytes"]),
        (resource.RLIMIT_FSIZE, limits["disk_bytes"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(name, (value, value))
    active.append("rlimits")
    if "landlock" in layers:
        private = ["/dev/shm"] if "namespaces" in layers else []
        walls.landlock(config["readable"], ["/tmp", "/dev/null", *private])
        active.append("landlock")
    walls.drop_capabilities()
    active.append("no capabilities")
    walls.no_new_privileges()
    active.append("no new privileges")
    if program:
        walls.seccomp(program)
        active.append("seccomp")
    return active


if __name__ == "__main__":
    main()
