"""gloo's thread shall not interrupt the thread that multiplies (Linux only).

gloo's thread asks again and again, without sleeping, as long as a pair that it has news for is
locked (gloo/transport/tcp/pair.cc, Pair::handleEvents). If it takes the processor from the thread
that holds the lock, both are stuck until the scheduler's next tick: 4 ms, as long as a GEMM. A
SCHED_BATCH thread takes the processor from nobody; `give_way` offers it.
"""

import contextlib
import os
from pathlib import Path


def be_patient(tp, patient):
    """Whether gloo's thread waits for its turn, between two operations of a schedule."""
    tp.after_operation = give_way if patient else None
    if not hasattr(os, "SCHED_BATCH"):
        return
    policy = os.SCHED_BATCH if patient else os.SCHED_OTHER
    for thread in gloo_threads():
        with contextlib.suppress(OSError):  # it has ended, or we are not allowed to
            os.sched_setscheduler(thread, policy, os.sched_param(0))


def give_way(verb):
    """After a GEMM or a send: let gloo's thread run if it has something to do."""
    if verb in ("gemm", "send") and hasattr(os, "sched_yield"):
        os.sched_yield()


def gloo_threads():
    """Numbers of this process's threads that move gloo's messages; empty without /proc."""
    with contextlib.suppress(OSError):
        threads = Path("/proc/self/task").iterdir()
        return [int(t.name) for t in threads if "gloo_tcp" in (t / "comm").read_text()]
    return []
