"""What else the machine is doing: wait for a quiet moment, and judge a measurement afterwards."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Quiet:
    """Accepts a measurement if other programs used at most `limit` of the processors (0: all)."""

    patience_s = 300.0  # how long a run may wait for quiet moments, all of them together

    def __init__(self, tp, limit):
        self.tp, self.limit = tp, limit

    def start(self, wait=True):
        """Rank 0 waits for an idle moment, if told so, and the others for rank 0."""
        start = time.perf_counter()
        longest_s = min(self.patience_s, self.tp.timeout_s / 3)  # the others wait in a barrier
        wait = wait and self.limit and self.tp.rank == 0
        while wait and time.perf_counter() - start < longest_s:
            busy, moment = machine_busy_s(), time.perf_counter()
            time.sleep(0.1)
            share = (machine_busy_s() - busy) / (time.perf_counter() - moment) / cores()
            wait = share > self.limit
        self.patience_s -= time.perf_counter() - start
        dist.barrier(group=self.tp.group)
        self.before = machine_busy_s(), time.process_time(), time.perf_counter()

    def stop(self):
        """Did other programs use little since `start`? Alike on all ranks."""
        busy, own, start = self.before
        mine = torch.tensor([time.process_time() - own], dtype=torch.float64, device=self.tp.device)
        dist.all_reduce(mine, group=self.tp.group)
        foreign = machine_busy_s() - busy - mine.item()
        share = max(0.0, foreign) / (time.perf_counter() - start) / cores()
        [share] = self.tp.largest(share)
        return not self.limit or share <= self.limit


def cores():
    return os.cpu_count() or 1


def machine_busy_s():
    """Processor seconds spent in programs on this machine (Linux; 0 elsewhere)."""
    try:
        user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    except OSError:
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")
