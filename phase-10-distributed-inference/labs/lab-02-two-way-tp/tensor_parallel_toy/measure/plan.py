"""Where does overlap pay? Measured per layer and direction, decided alike on every rank.

What the layers decide is one candidate, "by layer"; `profile.choose` compares whole steps.
"""

import time

import torch
import torch.distributed as dist

from .. import parallel_linear as layers
from .. import schedule


def communication(ops):
    """Only what travels: the schedule that measures communication alone."""
    return [op for op in schedule.sequential(ops) if op[0] not in ("gemm", "add")]


def computation(ops):
    """Only the GEMMs: the schedule that measures computation alone."""
    return [op for op in ops if op[0] == "gemm"]


schedule.VARIANTS.update(communication=communication, computation=computation)
VARIANTS = {
    "gemm alone": ("computation", 1),
    "comm alone": ("communication", 1),
    "sequential": ("sequential", 1),
    "overlap, 1 piece": ("overlap", 1),
    "overlap, 2 pieces": ("overlap", 2),
    "overlap, 4 pieces": ("overlap", 4),
}
MINIMUM_GAIN = 0.05  # below it a schedule with more messages is not worth its own trouble


def layer_shapes(config, tp_size):
    """[(layer, operation, weight shape)] for the four parallel layers of a block."""
    hidden, ffn = config.hidden_size, config.ffn_size // tp_size
    shapes = {
        "qkv": ("column", (sum(config.qkv_sizes) // tp_size, hidden)),
        "out": ("row", (hidden, hidden // tp_size)),
        "gate_up": ("column", (2 * ffn, hidden)),
        "down": ("row", (hidden, ffn)),
    }
    return [
        (layer, f"{kind}_{way}", shape)
        for layer, (kind, shape) in shapes.items()
        for way in ("forward", "backward")
    ]


def operation_runner(tp, operation, rows, shape, dtype):
    """A function without arguments that runs one operation on random data."""
    full, (out_size, in_size) = rows * tp.size, shape
    inputs = {
        "column_forward": [(rows, in_size)],
        "column_backward": [(full, out_size), (rows, in_size)],
        "row_forward": [(full, in_size)],
        "row_backward": [(rows, out_size), (full, in_size)],
    }
    tensors = [
        torch.randn(*size, device=tp.device, dtype=dtype) for size in [*inputs[operation], shape]
    ]
    function = getattr(layers, operation)
    return lambda: (function(tp, *tensors), tp.deferred.finish())


def timed(tp, function):
    """Seconds of one call, the slowest rank's."""
    synchronize(tp)
    dist.barrier(group=tp.group)
    start = time.perf_counter()
    function()
    synchronize(tp)
    [slowest] = tp.largest(time.perf_counter() - start)
    return slowest


def synchronize(tp):
    if tp.device.type == "cuda":
        torch.cuda.synchronize()


def lower_quartile(values):
    """Robust where other programs interrupt: an interruption only ever adds time."""
    return sorted(values)[len(values) // 4]


def measure(tp, config, quiet, repeats=7):
    """Every variant of every operation, interleaved -> [{"layer", "operation", "shape", times}].

    A round of all variants counts if the machine was quiet; after 4 x `repeats` rounds all count.
    """
    rows = config.seq_len // tp.size * config.batch_size
    before, tp.overlap = (tp.overlap, tp.default_plan, tp.plans), True
    tp.plans, table = {}, []
    for layer, operation, shape in layer_shapes(config, tp.size):
        run = operation_runner(tp, operation, rows, shape, getattr(torch, config.dtype))
        rounds, accepted = [], []
        for variant in VARIANTS.values():  # warms up
            tp.default_plan = variant
            run()
        while len(accepted) < repeats and len(rounds) < 4 * repeats:
            quiet.start()
            seconds = {}
            for name, tp.default_plan in VARIANTS.items():
                seconds[name] = timed(tp, run)
            rounds.append(seconds)
            if quiet.stop():
                accepted.append(seconds)
        kept = accepted if len(accepted) >= 3 else rounds
        times = {name: lower_quartile([s[name] for s in kept]) for name in VARIANTS}
        table.append(
            {
                "layer": layer,
                "operation": operation,
                "rows": rows,
                "shape": list(shape),
                "times_s": times,
                **decide(times),
            }
        )
    tp.overlap, tp.default_plan, tp.plans = before
    return table


def decide(times):
    """{"plan", "reason", "hidden"}: the fastest overlapped schedule, if it earns its keep.

    hidden = (comm alone + GEMM alone - overlapped) / comm alone, all wall clock; 1 is everything.
    """
    gemm, comm, sequential = times["gemm alone"], times["comm alone"], times["sequential"]
    best = min((name for name in times if name.startswith("overlap")), key=times.get)
    hidden = (comm + gemm - times[best]) / comm
    gain = 1 - times[best] / sequential
    if gain >= MINIMUM_GAIN:
        reason = (
            f"{best}: {gain:.0%} less time than sequential; it hides {min(hidden, 1):.0%} of "
            f"{1e3 * comm:.1f} ms behind {1e3 * gemm:.1f} ms of GEMM"
        )
        return {"plan": list(VARIANTS[best]), "reason": reason, "hidden": hidden}
    if comm < 2 * MINIMUM_GAIN * gemm:
        why = "there is little to hide"
    elif gemm < 2 * MINIMUM_GAIN * comm:
        why = "the GEMM is too short to hide anything behind"
    else:
        why = "the transfer itself keeps the processors busy, nothing is idle that could be filled"
    effect = f"save only {gain:.0%}" if gain >= 0 else f"cost {-gain:.0%} more"
    reason = f"sequential: overlap would {effect} of {1e3 * sequential:.1f} ms; {why}"
    return {"plan": list(VARIANTS["sequential"]), "reason": reason, "hidden": hidden}


def plans(table):
    """The table as TensorParallel.plans: (operation, rows, out, in) -> (variant, pieces)."""
    return {
        (entry["operation"], entry["rows"], *entry["shape"]): tuple(entry["plan"])
        for entry in table
    }
