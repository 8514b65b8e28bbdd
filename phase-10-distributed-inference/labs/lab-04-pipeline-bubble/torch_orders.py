"""Write captures/torch-schedules/: op orders of torch.distributed.pipelining, as torch gives them.

    python torch_orders.py          (needs torch==2.13.0; no process group, no network, seconds)

Private names are used (`_get_pipeline_order`, `pipeline_order`, `_step_microbatches`), so the
result is kept as data. Two views of 1F1B are kept because they disagree: "1F1B" is the order torch
publishes for its visualiser, "1F1B runtime" is what its training step makes a stage compute.
"""

import argparse
import json
import sys
from pathlib import Path
from unittest import mock

from labkit.provenance import write_provenance

OUT = Path(__file__).parent / "captures" / "torch-schedules"
TORCH_VERSION = "2.13.0"
RANKS = (2, 3, 4, 6, 8)
MICROBATCHES_PER_RANK = (1, 2, 4)
# (name in the capture, name in torch, stages per rank)
SCHEDULES = (
    ("GPipe", "GPipe", 1),
    ("1F1B", "1F1B", 1),
    ("1F1B runtime", "1F1B", 1),
    ("LoopedBFS", "LoopedBFS", 2),
    ("Interleaved1F1B", "Interleaved1F1B", 2),
    ("Interleaved1F1B", "Interleaved1F1B", 4),
    ("ZBVZeroBubble", "ZBVZeroBubble", 2),
)


def torch_order(name, torch_name, p, m, v):
    """One string per rank: 3F1 is stage 3, forward, microbatch 1; '.' is torch's None."""
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

    schedule_class = get_schedule_class(torch_name)
    stages = [Stage(p, v)] * v
    if name == "1F1B runtime":
        return [" ".join(_calls_of_a_step(schedule_class, p, m, rank)) for rank in range(p)]
    if issubclass(schedule_class, PipelineScheduleSingle):
        order = schedule_class(stages[0], m)._get_pipeline_order()
    else:
        order = schedule_class(stages, m).pipeline_order
    return [" ".join("." if op is None else str(op) for op in order[rank]) for rank in range(p)]


class Stage:
    """A stand-in for a PipelineStage: its place in the pipeline, a diary of what it computes."""

    submod = None

    def __init__(self, p, v, rank=0):
        self.group_rank = self.stage_index = rank
        self.group_size, self.num_stages = p, p * v
        self.calls = []

    def forward_one_chunk(self, microbatch, *_, **__):
        self.calls.append(f"{self.stage_index}F{microbatch}")

    def backward_one_chunk(self, microbatch, **__):
        self.calls.append(f"{self.stage_index}B{microbatch}")

    def perform_reduce_grad(self, _):
        pass

    def no_messages(self, _):
        return []

    get_fwd_recv_ops = get_fwd_send_ops = get_bwd_recv_ops = get_bwd_send_ops = no_messages


def _calls_of_a_step(schedule_class, p, m, rank):
    """What one training step of a single-stage schedule makes its stage compute, in order."""
    stage = Stage(p, 1, rank)
    schedule = schedule_class(stage, m)
    losses = ("_maybe_compute_loss", "_maybe_get_loss", "_update_losses")
    quiet = ("_check_inputs", "_initialize_stage", *losses)
    with mock.patch.multiple(schedule, **{name: mock.DEFAULT for name in quiet}) as patched:
        patched["_check_inputs"].return_value = ([()] * m, [{}] * m)
        schedule._step_microbatches()
    return stage.calls


def capture():
    """Every order of SCHEDULES x RANKS x MICROBATCHES_PER_RANK."""
    sizes = [(p, p * k) for p in RANKS for k in MICROBATCHES_PER_RANK]
    return [
        {"schedule": name, "p": p, "m": m, "v": v, "ranks": torch_order(name, torch_name, p, m, v)}
        for name, torch_name, v in SCHEDULES
        for p, m in sizes
    ]


def main():
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    try:
        import torch
    except ImportError:
        sys.exit(f"torch is not installed; pip install torch=={TORCH_VERSION}")
    if torch.__version__.split("+")[0] != TORCH_VERSION:
        sys.exit(f"this capture is of torch {TORCH_VERSION}, not {torch.__version__}")
    OUT.mkdir(parents=True, exist_ok=True)
    orders = OUT / "orders.json"
    rows = ",\n".join(json.dumps(row) for row in capture())
    orders.write_text(f"[\n{rows}\n]\n")
    write_provenance(
        "python torch_orders.py",
        OUT,
        [orders.name],
        packages=("torch",),
        what="op orders of torch.distributed.pipelining.schedules, unrepaired",
        torch_git_commit=torch.version.git_version,
    )
    print(f"wrote {len(rows.splitlines())} orders to {OUT.relative_to(Path(__file__).parent)}")


if __name__ == "__main__":
    main()
