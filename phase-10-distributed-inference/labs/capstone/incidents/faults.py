"""What can be wrong with a run: each fault is a context manager that puts it in place and back.

Linux, as root: CPU quotas are cgroups (v1 or v2), links are shaped by tc. A fault is called with
the processes of the ranks and, where there are two hosts, the commands that enter them.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

from live.hosts import shape, unshape

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 5000  # short against a step, so that a quota looks like a slower core, not like pauses


@contextlib.contextmanager
def first_on_the_machine():
    """What this process starts from here on comes before everybody else's (root, cgroup v1).

    With it a machine in use records nearly as a quiet one does. The load of others is watched all
    the same: a capture that they disturbed says so.
    """
    if not (CGROUPS / "cpu").is_dir():
        raise OSError("coming first needs cgroup v1, with a cpu controller; use a quiet machine")
    group = CGROUPS / "cpu" / f"incident-{uuid.uuid4().hex[:6]}"
    group.mkdir()
    try:
        (group / "cpu.shares").write_text("262144")  # the most there is; others have 1024
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (CGROUPS / "cpu" / "cgroup.procs").write_text(str(os.getpid()))
        _remove(group)


def _remove(group):
    """Remove a cgroup; its last process may still be ending, for a second at most."""
    for _ in range(20):
        with contextlib.suppress(OSError):
            return group.rmdir()
        time.sleep(0.05)
    print(f"incidents: {group} is still in use; rmdir it later", file=sys.stderr)


def _cgroup(pid, controller):
    """The folder of a process's cgroup; v2 has one hierarchy without a controller's name."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return CGROUPS / controller / path.lstrip("/")
    raise OSError(f"process {pid} is in no cgroup with a {controller or 'v2'} controller")


@contextlib.contextmanager
def nothing(pids, hosts):
    yield


def quota(rank, share):
    """Rank `rank` may use `share` of a core: a throttled or power-capped device."""

    @contextlib.contextmanager
    def fault(pids, hosts):
        old = (CGROUPS / "cpu").is_dir()  # cgroup v1
        parent = _cgroup(pids[rank], "cpu" if old else "")
        group = parent / f"incident-{uuid.uuid4().hex[:6]}"
        group.mkdir()
        try:
            budget = round(share * PERIOD_US)
            if old:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(budget))
            else:
                (group / "cpu.max").write_text(f"{budget} {PERIOD_US}")
            (group / "cgroup.procs").write_text(str(pids[rank]))
            yield
        finally:
            with contextlib.suppress(OSError):  # it has ended
                (parent / "cgroup.procs").write_text(str(pids[rank]))
            _remove(group)

    return fault


def neighbours(*cores):
    """A busy process of somebody else on each of `cores`."""

    @contextlib.contextmanager
    def fault(pids, hosts):
        busy = [
            subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"])
            for core in cores
        ]
        try:
            yield
        finally:
            for process in busy:
                process.kill()
                process.wait()

    return fault


def slow_link(rate):
    """Both ends of the cable send at `rate` (tc's spelling, such as 50mbit)."""

    @contextlib.contextmanager
    def fault(pids, hosts):
        shape(hosts, rate)
        try:
            yield
        finally:
            unshape(hosts)

    return fault


def unsteady_link(rate, bad_s, every_s):
    """The cable falls to `rate` for bad_s of every every_s."""

    @contextlib.contextmanager
    def fault(pids, hosts):
        stop = threading.Event()

        def toggle():
            while not stop.wait(every_s - bad_s):
                shape(hosts, rate)
                stop.wait(bad_s)
                unshape(hosts)

        thread = threading.Thread(target=toggle)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    return fault
