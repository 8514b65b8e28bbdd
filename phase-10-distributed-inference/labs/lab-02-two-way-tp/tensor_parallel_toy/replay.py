"""Any two schedules as data, run on real gloo over a simulated link with exact virtual time."""

import torch

from . import parallel_linear
from .group import TensorParallel
from .simulated_link import SimulatedLink, VirtualClock

ROWS, IN, OUT = 3, 20, 12  # rows of one chunk; features


def replay(tp, schedules):
    """schedules: {"all_gather_gemm" | "gemm_reduce_scatter": one list of operations per rank}.

    -> {name: {"error", "makespan", "exposed"}}: the largest difference from the unsharded product,
    and the times of this rank in units: a GEMM takes one, and so does a chunk's transfer.
    """
    return {name: _replay_one(tp, name, ops[tp.rank]) for name, ops in schedules.items()}


def _replay_one(tp, name, ops):
    clock = VirtualClock()
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(tp.size * ROWS, IN, generator=generator, dtype=torch.float64)
    weight = torch.randn(OUT, IN, generator=generator, dtype=torch.float64)
    features = IN if name == "all_gather_gemm" else OUT
    sim = TensorParallel(tp.group, tp.device, timeout_s=tp.timeout_s)
    sim.link = SimulatedLink(tp.group, ROWS * features * 8, latency_s=0.0, clock=clock)
    sim.after_operation = lambda verb: clock.spend(verb == "gemm")
    sim.next_tag = 2**24 if name == "all_gather_gemm" else 2**25  # apart from each other
    expected = x @ weight.t()
    rows = slice(tp.rank * ROWS, (tp.rank + 1) * ROWS)
    if name == "all_gather_gemm":
        y = parallel_linear.column_forward(sim, x[rows].contiguous(), weight, ops=ops)
    else:  # each rank multiplies by its own share of the columns
        share = torch.arange(IN) % tp.size == tp.rank
        y = parallel_linear.row_forward(
            sim, x[:, share].contiguous(), weight[:, share].contiguous(), ops=ops
        )
        expected = expected[rows]
    return {
        "error": (y - expected).abs().max().item(),
        "makespan": clock.time,
        "exposed": clock.exposed,
    }
