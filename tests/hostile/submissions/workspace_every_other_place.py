"""Sync the whole machine, lock shared files, and change every limit.

base: solution
expect: 100
"""

import ctypes
import fcntl
import os
import resource
import sys

libc = ctypes.CDLL(None, use_errno=True)
for _ in range(10):
    libc.sync()
for name in dir(resource):
    if name.startswith("RLIMIT_"):
        try:
            resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY,) * 2)
        except (OSError, ValueError):
            pass
held = []
for path in ("/inside/wire.py", sys.executable, os.__file__, np.__file__):
    try:
        held.append(open(path))
        fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.fcntl(held[-1], 1024, 0)
    except OSError:
        pass
for path in (
    "/dev/left",
    "/dev/shm/left",
    "/dev/pts/left",
    "/dev/mqueue/left",
    "/tmp/left",
    "/left",
    "/packages/left",
    "/inside/left",
    "/run/left",
    "/var/tmp/left",
):
    try:
        open(path, "w").write("for the next one")
    except OSError:
        pass
