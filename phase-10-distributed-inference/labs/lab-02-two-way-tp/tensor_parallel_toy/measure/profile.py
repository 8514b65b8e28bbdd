"""Train every mode on the same data; what it costs, what it hides, and the pictures of it.

Modes take turns step by step, so that whatever else the machine does hits all of them alike.
Times are the slowest rank's, between a barrier and a synchronisation.
"""

import functools
from pathlib import Path

import torch
import torch.distributed as dist

from ..config import ModelConfig
from ..train import make_batch
from . import plan, report, trace
from .memory import measure_bytes
from .modes import WAYS, Mode, choose, names, train_interleaved
from .quiet import Quiet

RECORDED = ("plain", "sequential", "overlap")


def profile(tp, config, steps=20, quiet=0.0, out="toy-profile"):
    """Everything `python -m tensor_parallel_toy profile` does -> {"ok", "folder"}."""
    if tp.size < 2:
        raise ValueError("one rank has nobody to talk to: profile with 2 ranks or more")
    config = ModelConfig(**config)
    say = functools.partial(print, flush=True) if tp.rank == 0 else lambda *_: None
    say(f"{tp.size} ranks, {dist.get_backend(tp.group)}, link {report.link_name(tp)}")
    quiet = Quiet(tp, quiet)
    table = plan.measure(tp, config, quiet, repeats=min(steps, 7))
    for entry in table:
        say(f"  {entry['layer']:8} {entry['operation']:16} {entry['reason']}")
    tokens, labels = make_batch(config, tp.device)
    if "plain" not in names(tp):
        say("  collectives do not pass the simulated link: without plain and DTensor")
    way, candidates = choose(tp, config, table, tokens, labels)
    listed = ", ".join(f"{name} {1e3 * seconds:.0f}" for name, seconds in candidates.items())
    say(f"  whole steps, ms: {listed}; overlap is from here on: {way[0]}")
    modes = [Mode(name, config, tp, way[1]) for name in names(tp)]
    train_interleaved(tp, modes, tokens, labels, steps, quiet)
    mine = {
        "bytes": {mode.name: measure_bytes(tp, mode, tokens, labels) for mode in modes},
        "own": {mode.name: [step["own"] for step in mode.counted()] for mode in modes},
        "timeline": record_mlp(tp, config, modes),
        "step": {
            mode.name: recorded(tp, functools.partial(mode.step, tokens, labels))[1]
            for mode in modes
            if mode.name in RECORDED
        },
    }
    records = [None] * tp.size
    dist.all_gather_object(records, mine, group=tp.group)
    dist.barrier()
    if tp.rank != 0:
        return {"ok": True}
    result = report.summarize(tp, config, modes, table, records)
    result |= {"candidates_s": candidates, "chosen": way[0], "quiet_limit": quiet.limit}
    folder = report.write(Path(out), result, records)
    report.print_tables(result)
    print(
        f"written to {folder}/: profile.json, curves.svg, timeline.svg, trace.json "
        "(open it at ui.perfetto.dev), provenance.json"
    )
    return {"ok": result["losses_coincide"], "folder": str(folder)}


def record_mlp(tp, config, modes, repeats=9):
    """Timelines of one MLP forward and backward; of `repeats` runs the one of median length."""
    modes = {mode.name: mode for mode in modes if mode.name in RECORDED}
    mlp = modes["overlap"].model.blocks[0].mlp
    generator = torch.Generator().manual_seed(3)
    size = (config.seq_len // tp.size, config.batch_size, config.hidden_size)
    dtype = getattr(torch, config.dtype)
    x, gradient = torch.randn(2, *size, generator=generator).to(tp.device, dtype)
    runs = {name: [] for name in modes}
    for _ in range(repeats):
        for name, kept in runs.items():
            modes[name].apply()
            if name == "overlap":  # the order itself, whichever way was chosen
                tp.overlap, tp.default_plan, tp.plans = WAYS["2 pieces"]
            leaf = x.clone().requires_grad_()
            kept.append(recorded(tp, lambda leaf=leaf: mlp(leaf).backward(gradient)))
            mlp.zero_grad()
    return {
        name: sorted(kept, key=lambda run: run[0])[len(kept) // 2][1] for name, kept in runs.items()
    }


def recorded(tp, function):
    """(seconds, the spans and messages of this rank) of one call."""
    tp.recorder = recorder = trace.Recorder(wire=True)
    seconds = plan.timed(tp, function)
    tp.recorder = None
    recorder.finish()
    return seconds, {"spans": recorder.spans, "messages": recorder.messages}
