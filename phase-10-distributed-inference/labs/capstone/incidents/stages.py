"""Record a pipeline of lab 04's kind: processes over gloo whose stages sleep, one of them slow.

Each stage notes, per microbatch, when it asked for its input, had it, was done and had handed on.
"""

import json
import sys
import tempfile
from pathlib import Path

from labkit.ranks import run_processes

STAGE_S = (0.05, 0.05, 0.05, 0.05)
ACTIVATION_BYTES = 8192


def record(plan):
    """plan: [(seconds per stage, microbatches), ...]; returns the evidence of each."""
    with tempfile.TemporaryDirectory() as folder:
        job = {"plan": plan, "store": str(Path(folder, "store"))}
        Path(folder, "job.json").write_text(json.dumps(job))
        ranks = range(len(plan[0][0]))
        commands = [[sys.executable, __file__, folder, str(rank)] for rank in ranks]
        run_processes(commands, folder, timeout_s=120)
        found = [json.loads(Path(folder, f"stage-{rank}.json").read_text()) for rank in ranks]
    return [
        {
            "plan": {"pp_size": len(ranks), "tp_size": 1, "microbatches": m, "stage_s": STAGE_S[0]},
            "microbatches": [stage[number] for stage in found],
        }
        for number, (_, m) in enumerate(plan)
    ]


def stage(folder, rank):
    """One stage: for each run of the plan, receive, sleep, send, m times over."""
    import time

    import torch
    import torch.distributed as dist

    job = json.loads(Path(folder, "job.json").read_text())
    last = len(job["plan"][0][0]) - 1
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{job['store']}", rank=rank, world_size=last + 1
    )
    runs = []
    for stage_s, m in job["plan"]:
        activation, sends, rows = torch.zeros(ACTIVATION_BYTES, dtype=torch.uint8), [], []
        dist.barrier()
        zero = time.monotonic()
        for _ in range(m):
            row = [time.monotonic()]
            if rank > 0:
                dist.recv(activation, src=rank - 1)
            row.append(time.monotonic())
            time.sleep(stage_s[rank])
            row.append(time.monotonic())
            if rank < last:
                sends.append(dist.isend(activation, dst=rank + 1))
            row.append(time.monotonic())
            rows.append([round(1e6 * (at - zero)) for at in row])
        for send in sends:
            send.wait()
        runs.append(rows)
    dist.barrier()
    Path(folder, f"stage-{rank}.json").write_text(json.dumps(runs))


if __name__ == "__main__":
    stage(sys.argv[1], int(sys.argv[2]))
