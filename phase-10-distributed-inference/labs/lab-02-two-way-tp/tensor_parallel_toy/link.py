"""Messages between two ranks of one group: gloo, NCCL, and a simulated slow link.

Peers are numbered inside the group (`group_src`, `group_dst`), so a sub-group works like the world.
"""

import contextlib
import os
import re
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Link:
    """Point-to-point over gloo: a message moves in the background as soon as it is posted."""

    def __init__(self, group, name="gloo"):
        self.group, self.name = group, name
        self.sent_bytes = 0
        self.patient = False
        self.set_patient(True)

    def set_patient(self, patient):
        """Whether gloo's thread waits for its turn instead of interrupting this one (Linux only).

        That thread asks again and again, without sleeping, as long as a pair that it has news for
        is locked (gloo/transport/tcp/pair.cc, Pair::handleEvents). If it takes the processor from
        the thread that holds the lock, both are stuck until the scheduler's next tick: 4 ms, as
        long as a GEMM. A SCHED_BATCH thread takes it from nobody; `give_way` offers it.
        """
        if not hasattr(os, "SCHED_BATCH") or patient == self.patient:
            return
        self.patient = patient
        policy = os.SCHED_BATCH if patient else os.SCHED_OTHER
        for thread in gloo_threads():
            with contextlib.suppress(OSError):  # it has ended, or we are not allowed to
                os.sched_setscheduler(thread, policy, os.sched_param(0))

    def give_way(self):
        """Between two operations: let gloo's thread run if it has something to do."""
        if self.patient:
            os.sched_yield()

    def irecv(self, buffer, peer, tag):
        return dist.irecv(buffer, group=self.group, group_src=peer, tag=tag)

    def isend(self, buffer, peer, tag):
        self.sent_bytes += buffer.numel() * buffer.element_size()
        return dist.isend(buffer, group=self.group, group_dst=peer, tag=tag)


def gloo_threads():
    """Numbers of this process's threads that move gloo's messages; empty without /proc."""
    with contextlib.suppress(OSError):
        threads = Path("/proc/self/task").iterdir()
        return [int(t.name) for t in threads if "gloo_tcp" in (t / "comm").read_text()]
    return []


class NcclLink(Link):
    """Point-to-point over NCCL, where a lone receive would block its stream.

    The k-th send is launched in one NCCL group with the k-th posted receive; our schedules pair
    them (the stream machine insists on it). c10d does the rest with events: the transfer starts
    after what the current stream held when it was launched, and `wait` blocks the stream only.
    """

    def __init__(self, group):
        super().__init__(group, "nccl")
        self.posted = []

    def irecv(self, buffer, peer, tag):
        op = dist.P2POp(dist.irecv, buffer, group=self.group, group_peer=peer)
        exchange = _Exchange([op])
        self.posted.append(exchange)
        return exchange

    def isend(self, buffer, peer, tag):
        self.sent_bytes += buffer.numel() * buffer.element_size()
        exchange = self.posted.pop(0) if self.posted else _Exchange([])
        exchange.ops.append(dist.P2POp(dist.isend, buffer, group=self.group, group_peer=peer))
        exchange.works = dist.batch_isend_irecv(exchange.ops)
        return exchange


class _Exchange:
    """A receive and the send launched with it; both are done when either is waited for."""

    def __init__(self, ops):
        self.ops, self.works = ops, None

    def wait(self):
        if self.works is None:
            raise RuntimeError("a receive was never paired with a send")
        while self.works:
            self.works.pop().wait()


class SimulatedLink(Link):
    """Real gloo messages that arrive no earlier than a link of this speed would deliver them.

    Messages leave a rank one after the other. Every message is followed by its arrival time, and
    `wait` returns no earlier. With a `VirtualClock` nothing sleeps: the times are exact arithmetic.
    Needs no privileges, and is no measurement of a network: label what it produces "simulated".
    """

    def __init__(self, group, bytes_per_s, latency_s=50e-6, clock=None):
        super().__init__(group, f"simulated {bytes_per_s * 8 / 1e9:g} Gbit/s")
        self.bytes_per_s, self.latency_s = bytes_per_s, latency_s
        self.clock = clock or WallClock()
        self.free_at = 0.0

    def irecv(self, buffer, peer, tag):
        arrival = torch.zeros(1, dtype=torch.float64)
        works = [super().irecv(buffer, peer, tag), super().irecv(arrival, peer, tag + 1)]
        return _Paced(works, arrival, self.clock)

    def isend(self, buffer, peer, tag):
        size = buffer.numel() * buffer.element_size()
        self.free_at = max(self.free_at, self.clock.now()) + size / self.bytes_per_s
        arrival = torch.tensor([self.free_at + self.latency_s], dtype=torch.float64)
        works = [
            super().isend(buffer, peer, tag),
            dist.isend(arrival, group=self.group, group_dst=peer, tag=tag + 1),
        ]
        return _Paced(works, arrival, self.clock)


class _Paced:
    def __init__(self, works, arrival, clock):
        self.works, self.arrival, self.clock = works, arrival, clock

    def wait(self):
        for work in self.works:
            work.wait()
        self.clock.wait_until(self.arrival.item())


class WallClock:
    """CLOCK_MONOTONIC, which all processes of one machine share."""

    now = staticmethod(time.perf_counter)

    def wait_until(self, moment):
        time.sleep(max(0.0, moment - self.now()))


class VirtualClock:
    """Time that only passes when somebody says so; `exposed` is what was spent waiting."""

    def __init__(self):
        self.time = self.exposed = 0.0

    def now(self):
        return self.time

    def spend(self, duration):
        self.time += duration

    def wait_until(self, moment):
        self.exposed += max(0.0, moment - self.time)
        self.time = max(self.time, moment)


def make_link(spec, group):
    """`spec` is "auto" or "simulated:1gbit" (also "simulated:250mbit")."""
    if spec == "auto":
        return NcclLink(group) if dist.get_backend(group) == "nccl" else Link(group)
    match = re.fullmatch(r"simulated:(\d+(?:\.\d+)?)([mg])bit", spec)
    if not match or not float(match[1]):
        raise ValueError(f"link {spec!r} is neither 'auto' nor like 'simulated:1gbit'")
    if dist.get_backend(group) != "gloo":
        raise ValueError(f"link {spec!r} paces gloo's messages: use it with --backend gloo")
    return SimulatedLink(group, float(match[1]) * {"m": 1e6, "g": 1e9}[match[2]] / 8)
