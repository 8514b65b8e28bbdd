"""A slow link without a slow network, and a clock that makes its times exact."""

import re
import time

import torch
import torch.distributed as dist

from .link import Arrival, Link


def simulated_link(spec, group):
    """The link that `spec` describes: "simulated:1gbit", "simulated:250mbit"."""
    match = re.fullmatch(r"simulated:(\d+(?:\.\d+)?)([mg])bit", spec)
    if not match or not float(match[1]):
        raise ValueError(f"link {spec!r} is neither 'auto' nor like 'simulated:1gbit'")
    return SimulatedLink(group, float(match[1]) * {"m": 1e6, "g": 1e9}[match[2]] / 8)


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
        moment = torch.zeros(1, dtype=torch.float64)
        works = super().irecv(buffer, peer, tag), super().irecv(moment, peer, tag + 1)
        return _Paced(self.clock, moment, buffer, *works)

    def isend(self, buffer, peer, tag):
        self.free_at = max(self.free_at, self.clock.now()) + buffer.nbytes / self.bytes_per_s
        moment = torch.tensor([self.free_at + self.latency_s], dtype=torch.float64)
        stamp = dist.isend(moment, group=self.group, group_dst=peer, tag=tag + 1)
        return _Paced(self.clock, moment, buffer, super().isend(buffer, peer, tag), stamp)


class _Paced(Arrival):
    """A message, and the moment before which nobody has it."""

    def __init__(self, clock, moment, buffer, *works):
        super().__init__(buffer, *works)
        self.clock, self.moment = clock, moment

    def wait(self):
        buffer = super().wait()
        self.clock.wait_until(self.moment.item())
        return buffer


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
