"""A real pipeline whose stages sleep: one process per stage, joined by gloo on this machine.

A stage receives an activation, sleeps for its time, and sends the activation on. Sleeping needs no
cores, so p stages do work in parallel on a laptop; fill, drain and the slowest pace are real.
"""

import json
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from labkit.ranks import run_processes

ACTIVATION_BYTES = 8192  # one token of a model with hidden size 4096, 2 bytes per value
GRACE_S = 60  # for starting processes and importing torch


def run(plan):
    """rows[run][stage] of [(seconds per stage, microbatches), ...], run one after the other.

    A row per microbatch: when the stage asked for its input, had it, had computed, and had handed
    on, in seconds of one clock. Raises RanksFailed; leaves no process.
    """
    busiest_s = sum(sum(stage_s) + (m - 1) * max(stage_s) for stage_s, m in plan)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plan.json").write_text(json.dumps(plan))
        words = [[str(rank), name] for rank in range(len(plan[0][0]))]
        run_processes(__file__, words, folder, timeout_s=3 * busiest_s + GRACE_S)
        stages = [
            json.loads((folder / f"stage-{rank}.json").read_text()) for rank in range(len(words))
        ]
    return [list(run) for run in zip(*stages, strict=True)]


def stage(rank, folder, plan):
    """One stage: for each run of the plan, receive, sleep, send, m times over."""
    import torch
    import torch.distributed as dist

    last = len(plan[0][0]) - 1
    torch.set_num_threads(1)
    # all ranks are here: no name service, no firewall
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    store, limit = dist.FileStore(str(folder / "store"), last + 1), timedelta(seconds=GRACE_S)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=last + 1, timeout=limit)
    runs = []
    for stage_s, m in plan:
        activation, sends, rows = torch.zeros(ACTIVATION_BYTES, dtype=torch.uint8), [], []
        dist.barrier()
        for _ in range(m):
            row = [time.monotonic()]
            if rank > 0:
                dist.recv(activation, src=rank - 1)
            row.append(time.monotonic())
            time.sleep(stage_s[rank])
            row.append(time.monotonic())
            if rank < last:
                sends.append(dist.isend(activation, dst=rank + 1))
            rows.append([*row, time.monotonic()])
        for send in sends:
            send.wait()
        runs.append(rows)
    dist.barrier()
    dist.destroy_process_group()
    return runs


def main():
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    found = stage(rank, folder, json.loads((folder / "plan.json").read_text()))
    (folder / f"stage-{rank}.json").write_text(json.dumps(found))
