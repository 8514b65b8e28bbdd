"""A warm Python with numpy, from which one sandboxed worker is forked per submission.

It never sees a test, a solution, a key or a verdict. A request on the control socket is a JSON
object and three descriptors: the worker's data socket, the file its output goes to, and a lifeline,
on which this process reports how the worker ended, and by whose end it knows that the grader is
gone. Of all workers it watches the memory.
"""

import contextlib
import ctypes.util  # noqa: F401  (imported before the walls go up, as is everything below)
import dataclasses  # noqa: F401
import fractions  # noqa: F401
import gc
import inspect  # noqa: F401
import json
import os
import resource
import select
import shutil
import signal
import socket
import statistics  # noqa: F401
import sys
import traceback
import typing  # noqa: F401

import numpy.fft  # noqa: F401
import numpy.linalg  # noqa: F401
import numpy.random  # noqa: F401
import walls
import worker

POLL_S = 0.05
PAGE = os.sysconf("SC_PAGE_SIZE")


def main():
    config = json.loads(sys.argv[1])
    control = socket.socket(fileno=config["control"])
    program = walls.seccomp_program() if "seccomp" in config["layers"] else None
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    workers, pause = Workers(control), POLL_S
    while True:
        ready = workers.ready(pause)
        pause = min(POLL_S, 2 * pause)
        for descriptor in ready:  # the control socket first: what ends after it frees descriptors
            if descriptor != control.fileno():
                workers.end(descriptor)
                continue
            message, descriptors, _, _ = socket.recv_fds(control, 65536, 3)
            if not message:
                return workers.end_all()
            start(config, json.loads(message), program, workers, *descriptors)
            pause = POLL_S / 10  # a new one may grow fast
        if not ready:
            workers.look_at_memory()


def start(config, limits, program, workers, data, output, lifeline):
    """Fork a worker, process 1 of a namespace; it reports the walls around it, then serves."""
    isolated = "namespaces" in config["layers"]
    try:
        if isolated:
            walls.unshare(walls.CLONE_NEWPID)  # of the next child
        child = os.fork()
        if child == 0:
            try:
                what = {"layers": close_the_walls(config, limits, program)}
            except BaseException:
                what = {"setup": traceback.format_exc(limit=3)}
            _report(lifeline, what)
            try:
                if "layers" in what:
                    worker.serve(data, output, limits["lab"])  # it closes all others
            finally:
                os._exit(0)
        if isolated:
            walls.back_to_own_processes()
        workers.add(child, lifeline, limits["memory_bytes"], in_group=not isolated)
    except OSError as error:
        _report(lifeline, {"setup": str(error)})
        os.close(lifeline)
    finally:
        os.close(data)
        os.close(output)


def _report(lifeline, what):
    with contextlib.suppress(OSError):  # nobody is left to tell
        os.write(lifeline, json.dumps(what).encode())


def folder_of(child):
    """Where a worker without namespaces works; one with them has a /tmp of its own."""
    return f"/tmp/grading-worker-{child}"


def _resident(process):
    with open(f"/proc/{process}/statm") as file:
        return int(file.read().split()[1]) * PAGE


class Workers:
    """Those that live. One ends when it exits, when the grader hangs up, when it is the largest of
    some that are too large together."""

    def __init__(self, control):
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.by_descriptor = {}  # each of a worker's two -> (its id, both, in_group)
        self.memory_bytes, self.inherited = 0, _resident(os.getpid())

    def add(self, child, lifeline, memory_bytes, in_group):
        exited, self.memory_bytes = os.pidfd_open(child), memory_bytes
        for descriptor in (exited, lifeline):
            self.by_descriptor[descriptor] = child, exited, lifeline, in_group
            self.poll.register(descriptor, select.POLLIN)

    def ready(self, pause):
        limit = 1000 * pause if self.by_descriptor else None
        return [descriptor for descriptor, _ in self.poll.poll(limit)]

    def look_at_memory(self):
        resident = {exited: _resident(child) for child, exited, _, _ in self.by_descriptor.values()}
        for exited, size in resident.items():
            if not size:  # its first thread has ended; what the others use cannot be seen
                self.end(exited)
        own = sum(max(0, size - self.inherited) for size in resident.values())
        if own > self.memory_bytes:
            self.end(max(resident, key=resident.get), "memory")

    def end(self, descriptor, reason="exited"):
        """Kill it, and report how it ended once it and all of its threads are gone."""
        if descriptor not in self.by_descriptor:
            return  # both of its descriptors were ready
        child, exited, lifeline, in_group = self.by_descriptor[descriptor]
        if in_group:  # without namespaces, some of its processes may have outlived it
            with contextlib.suppress(OSError):
                os.killpg(child, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        if in_group:
            shutil.rmtree(folder_of(child), ignore_errors=True)
        report = {
            "reason": reason,
            "exit": os.waitstatus_to_exitcode(status),
            "cpu_s": usage.ru_utime + usage.ru_stime,
        }
        _report(lifeline, report)
        for one in (exited, lifeline):
            del self.by_descriptor[one]
            self.poll.unregister(one)
            os.close(one)

    def end_all(self):
        for descriptor in list(self.by_descriptor):
            self.end(descriptor)


def close_the_walls(config, limits, program):
    """Every layer around this process, in the order in which each can still be put up."""
    layers, active, uid = config["layers"], [], limits["uid"]
    isolated = "namespaces" in layers
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        walls.stay_dumpable()
    if isolated:
        # The limit counts per user namespace. Set before, it bounds this one and those of the
        # submission's other workers together; each gets its own below.
        resource.setrlimit(resource.RLIMIT_NPROC, (limits["processes"] * walls.MAX_WORKERS,) * 2)
        walls.enter_namespaces(os.getuid(), os.getgid())
        active += ["user", "mount", "pid", "net", "ipc", "uts"]
        walls.sethostname("sandbox")
        size = f"size={limits['disk_bytes']},nr_inodes={limits['files']},mode=0700"
        walls.mount_tmpfs("/tmp", size)
        walls.mount_tmpfs("/dev/shm", "size=1m,nr_inodes=16,mode=0700")  # for semaphores
        nosuid = walls.MS_NOSUID | walls.MS_NODEV | walls.MS_NOEXEC
        walls.mount_tmpfs("/proc", "size=4k,nr_inodes=2", nosuid | walls.MS_RDONLY)
        active.append("tmpfs")
    walls.die_with_parent()
    os.setsid()  # kill(0) reaches a process group across namespaces: its own holds nobody else
    if isolated:
        os.chdir("/tmp")
    else:  # the machine's own /tmp, in which nothing of a submission's may stay
        os.mkdir(folder_of(os.getpid()), 0o700)
        os.chdir(folder_of(os.getpid()))
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
    walls.no_new_privileges()
    active.append("no new privileges")
    if "landlock" in layers:
        private = ["/dev/shm"] if isolated else []
        readable = filter(os.path.exists, config["readable"])
        walls.landlock(readable, ["/tmp", "/dev/null", *private])
        active.append("landlock")
    walls.drop_capabilities()
    active.append("no capabilities")
    if program:
        walls.seccomp(program)
        active.append("seccomp")
    return active


if __name__ == "__main__":
    main()
