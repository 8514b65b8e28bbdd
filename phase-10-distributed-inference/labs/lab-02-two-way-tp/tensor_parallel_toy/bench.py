"""Train the same model in every mode on the same data: what a step costs, and what overlap hides.

Modes take turns step by step, so that whatever else the machine does hits all of them alike. A
step's time is the slowest rank's, from a barrier to a synchronisation; `exposed` is what its main
thread was blocked by communication. torch.profiler records one MLP of each order for Perfetto.
"""

import contextlib
import functools
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import torch
import torch.distributed as dist

from labkit.provenance import write_provenance

from . import dtensor, figures, memory
from .config import ModelConfig
from .model import Transformer
from .train import make_batch, train_step

MODES = {
    "no TP": "one rank, one rank's share of the cores",
    "plain": "TP + SP, collectives, then GEMMs",
    "sequential": "TP + SP, the messages of overlap, nothing overlapped",
    "overlap": "TP + SP, messages behind GEMMs",
    "DTensor": "torch.distributed.tensor.parallel, TP + SP",
}
COLLECTIVE = ("plain", "DTensor")  # a simulated link carries messages only
RECORDED = ("sequential", "overlap")
LANES = {"gemm": "GEMM", "wait": "wait", "wait_send": "wait", "collective": "wait"}
LARGEST_LOSS_GAP = {"float64": 1e-9, "float32": 1e-3}  # sums in another order, trained on
WARM_UP = 3  # steps of each mode
FILES = ("profile.json", "timeline.json", "curves.svg", "timeline.svg", "trace.json")


class Recorder:
    """A span [lane, name, start, end] for each operation, also in the trace of torch.profiler."""

    def __init__(self):
        self.spans = []

    @contextlib.contextmanager
    def span(self, verb, operands):
        name = operands[0] if len(operands) == 1 else f"{operands[0]}[{operands[1]}]"
        start = time.perf_counter()
        with torch.profiler.record_function(f"{verb} {name}"):
            yield
        self.spans.append([LANES.get(verb, "issue"), name, start, time.perf_counter()])

    def exposed_s(self):
        return sum(end - start for lane, _, start, end in self.spans if lane == "wait")


class Mode:
    """One model, its optimizer, and what its steps have shown."""

    def __init__(self, name, config, tp):
        self.name, self.tp, self.place = name, tp, None if name == "no TP" else tp
        self.runs_here = self.place is not None or tp.rank == 0
        self.settle = dtensor.settle if name == "DTensor" else None
        self.taken = []
        if self.runs_here:
            build = dtensor.build if name == "DTensor" else Transformer
            self.model = build(config, self.place) if self.place else Transformer(config)
            self.model.to(tp.device)
            kinds = {}  # fused Adam cannot mix tensors and DTensors in one group
            for parameter in self.model.parameters():
                kinds.setdefault(type(parameter.data), []).append(parameter)
            groups = [{"params": group} for group in kinds.values()]
            self.optimizer = torch.optim.Adam(groups, lr=1e-3, fused=True)

    def step(self, tokens, labels):
        self.tp.order = self.name if self.name in ("plain", "sequential") else "overlap"
        return train_step(self.model, self.optimizer, tokens, labels, self.place, self.settle)

    def measured_step(self, tokens, labels):
        tp, loss, norm = self.tp, 0.0, 0.0
        tp.recorder, sent = Recorder(), tp.link.sent_bytes
        dist.barrier(group=tp.group)
        start = time.perf_counter()
        if self.runs_here:
            loss, norm = self.step(tokens, labels)
            synchronize(tp)
        took, exposed = time.perf_counter() - start, tp.recorder.exposed_s()
        dist.barrier(group=tp.group)  # where one rank works alone, the others wait here
        tp.recorder = None
        step_s, exposed_s = tp.largest(took if self.runs_here else 0.0, exposed)
        self.taken.append(
            {
                "loss": float(loss),
                "gradient_norm": float(norm),
                "step_s": step_s,
                "exposed_s": exposed_s,
                "sent_bytes": tp.link.sent_bytes - sent,
            }
        )

    def bytes(self, tokens, labels):
        """What this rank keeps for backward, and how far a step's memory grows."""
        saved = peak = 0
        if self.runs_here:
            self.tp.order = self.name if self.name in ("plain", "sequential") else "overlap"
            saved = memory.saved_bytes(self.model, tokens, labels, self.place)
            peak = memory.growth(self.tp.device, functools.partial(self.step, tokens, labels))
        dist.barrier(group=self.tp.group)
        sent = self.taken[-1]["sent_bytes"]
        return {"saved_bytes": saved, "peak_bytes": peak, "sent_bytes": sent}


def synchronize(tp):
    if tp.device.type == "cuda":
        torch.cuda.synchronize()


def profile(tp, config, steps=8, out="toy-profile", details=False):
    """Everything `python -m tensor_parallel_toy profile` does -> {"ok", "folder"}."""
    if tp.size < 2:
        raise ValueError("one rank has nobody to talk to: profile with 2 ranks or more")
    config, began = ModelConfig(**config), time.monotonic()
    simulated = tp.link.name.startswith("simulated")
    names = [name for name in MODES if not (simulated and name in COLLECTIVE)]
    modes = {name: Mode(name, config, tp) for name in names}
    tokens, labels = make_batch(config, tp.device)
    for _ in range(WARM_UP + steps):
        for mode in modes.values():
            mode.measured_step(tokens, labels)
    mine = {
        "bytes": {name: mode.bytes(tokens, labels) for name, mode in modes.items()},
        "mlp": record_mlp(tp, config, modes),
    }
    records = [None] * tp.size
    dist.all_gather_object(records, mine, group=tp.group)
    if tp.rank:
        return {"ok": True}
    result = summary(tp, config, modes, records)
    folder = write(Path(out), result, records)
    print("\n".join(lines(result, details)))
    if simulated:
        print("no plain and no DTensor here: collectives do not pass the simulated link")
    elif tp.device.type == "cpu":
        print("messages are copied here by the cores that multiply, so little of them is hidden; "
              "over a slow link overlap pays: profile --link simulated:1gbit")  # fmt: skip
    print(
        f"{time.monotonic() - began:.0f} s; in {folder}: timeline.svg, curves.svg, trace.json "
        "(for ui.perfetto.dev)" + ("" if details else "; --details prints the table")
    )
    return {"ok": result["losses_coincide"], "folder": str(folder)}


def record_mlp(tp, config, modes, repeats=9):
    """One MLP forward and backward in each recorded order: its spans, of the median of `repeats`
    runs, and the events of torch.profiler, of one run more."""
    mlp = modes["overlap"].model.blocks[0].mlp
    generator = torch.Generator().manual_seed(3)
    size = (config.seq_len // tp.size, config.batch_size, config.hidden_size)
    dtype = getattr(torch, config.dtype)
    x, gradient = torch.randn(2, *size, generator=generator).to(tp.device, dtype)

    def once():
        tp.recorder = Recorder()
        dist.barrier(group=tp.group)
        start = time.perf_counter()
        mlp(x.clone().requires_grad_()).backward(gradient)
        synchronize(tp)
        mlp.zero_grad()
        spans, tp.recorder = tp.recorder.spans, None
        return tp.largest(time.perf_counter() - start)[0], spans

    found = {}
    for tp.order in RECORDED:
        runs = sorted((once() for _ in range(repeats)), key=lambda run: run[0])
        found[tp.order] = {"spans": runs[repeats // 2][1], "events": profiled(once)}
    return found


def profiled(function):
    """torch.profiler's events of one call; times in microseconds of the machine's clock."""
    with torch.profiler.profile() as recorded:
        function()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        recorded.export_chrome_trace(str(path))
        trace = json.loads(path.read_text())
    base = trace.get("baseTimeNanoseconds", 0) / 1000
    kept = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    return [
        {key: event[key] for key in ("ph", "cat", "name", "dur", "tid")}
        | {"ts": event["ts"] + base}
        for event in kept
        if event.get("cat") in ("user_annotation", "cpu_op", "kernel", "gpu_memcpy")
    ]


def perfetto(records):
    """One trace of all ranks and orders: a process per rank, the orders side by side from 0."""
    events = []
    for order in RECORDED:
        ranks = [record["mlp"][order]["events"] for record in records]
        origin = min((event["ts"] for rank in ranks for event in rank), default=0)
        for rank, found in enumerate(ranks):
            threads = sorted({str(event["tid"]) for event in found})
            for event in found:
                lane = f"{order}, thread {threads.index(str(event['tid'])) + 1}"
                events.append(
                    event | {"pid": rank, "tid": lane, "ts": round(event["ts"] - origin, 3)}
                )
    lanes = sorted({event["tid"] for event in events})
    named = [("process_name", rank, 0, f"rank {rank}") for rank in range(len(records))]
    named += [
        ("thread_name", rank, number, lane)
        for rank in range(len(records))
        for number, lane in enumerate(lanes, 1)
    ]
    names = [
        {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
        for what, pid, tid, name in named
    ]
    return {"traceEvents": names + [e | {"tid": lanes.index(e["tid"]) + 1} for e in events]}


def summary(tp, config, modes, records):
    """What profile.json holds; times in seconds, bytes per rank."""
    found = {}
    for name, mode in modes.items():
        warm = [step["step_s"] for step in mode.taken[WARM_UP:]]
        found[name] = {
            "description": MODES[name],
            **{
                key: [step[key] for step in mode.taken]
                for key in ("loss", "gradient_norm", "step_s")
            },
            "median_step_s": median(warm),
            "spread_s": quantiles(warm, n=4, method="inclusive")[::2]
            if len(warm) > 1
            else warm * 2,
            "exposed_s": None
            if name in ("no TP", "DTensor")  # no layer of ours says what it waits for
            else median(step["exposed_s"] for step in mode.taken[WARM_UP:]),
            **{
                key: [rank["bytes"][name][key] for rank in records]
                for key in records[0]["bytes"][name]
            },
        }
    counted = modes["sequential"].taken[WARM_UP:]
    compute_s = median(step["step_s"] - step["exposed_s"] for step in counted)
    gap = max(
        abs(a - b)
        for mode in found.values()
        for a, b in zip(mode["loss"], found["no TP"]["loss"], strict=True)
    )
    return {
        "ranks": tp.size,
        "backend": dist.get_backend(tp.group),
        "link": os.environ.get("TOY_LINK_NAME", tp.link.name),
        "config": vars(config),
        "modes": found,
        "compute_s": compute_s,
        "bound_s": max(compute_s, found["sequential"]["exposed_s"]),
        "largest_loss_gap": gap,
        "losses_coincide": gap < LARGEST_LOSS_GAP.get(config.dtype, 1),
    }


def lines(result, details=False):
    """What a profile prints: sequential, overlap and bound as bars; with `details` a table."""
    modes, bound_s = result["modes"], result["bound_s"]
    sequential, overlap = (modes[name]["median_step_s"] for name in RECORDED)
    told = [
        f"{result['ranks']} ranks, {result['backend']}, link {result['link']}; medians of "
        f"{len(modes['overlap']['step_s']) - WARM_UP} training steps, the slowest rank's"
    ]
    for name in (*RECORDED, "bound"):
        took = modes[name]["median_step_s"] if name in modes else bound_s
        blocked = modes[name]["exposed_s"] if name in modes else 0.0
        scale = 40 / max(sequential, overlap)
        bar = "█" * round((took - blocked) * scale) + "░" * round(blocked * scale)
        said = f", {1e3 * blocked:.0f} of it blocked (░)" if name in modes else ""
        said = said or ", if only the GEMMs or only the messages took time"
        told.append(f"  {name:11}{bar:41}{1e3 * took:6.0f} ms{said}")
    gain, could = sequential - overlap, sequential - bound_s
    told.append(
        f"overlap takes {gain / sequential:.0%} off the sequential step, of "
        f"{could / sequential:.0%} that could go; losses of all modes within "
        f"{result['largest_loss_gap']:.0e} of no TP"
        + ("" if result["losses_coincide"] else "  THEY DIFFER")
    )
    return told + (table(result) if details else [])


def table(result):
    head = f"{'':11}{'loss':>9}{'|gradient|':>12}{'step ms':>9}{'middle half':>16}{'blocked':>9}"
    told = [head + f"{'kept MiB':>10}{'peak MiB':>10}{'sent MiB':>10}"]
    for name, mode in result["modes"].items():
        low, high = (1e3 * seconds for seconds in mode["spread_s"])
        row = f"{name:11}{mode['loss'][-1]:9.5f}{mode['gradient_norm'][-1]:12.4f}"
        row += f"{1e3 * mode['median_step_s']:9.1f}{f'{low:.1f}-{high:.1f}':>16}"
        row += "        -" if mode["exposed_s"] is None else f"{1e3 * mode['exposed_s']:9.1f}"
        held = (max(mode[f"{kind}_bytes"]) / 2**20 for kind in ("saved", "peak", "sent"))
        told.append(row + "".join(f"{mib:10.1f}" for mib in held))
    return told


def write(folder, result, records):
    """The folder of a profile: what was measured, drawn, and how to make it again."""
    folder.mkdir(parents=True, exist_ok=True)
    spans = {order: [record["mlp"][order]["spans"] for record in records] for order in RECORDED}
    (folder / "profile.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "timeline.json").write_text(json.dumps(spans) + "\n")
    (folder / "trace.json").write_text(json.dumps(perfetto(records)) + "\n")
    (folder / "curves.svg").write_text(figures.curves(result))
    title = (
        "One MLP, forward and backward, as recorded: "
        f"{result['ranks']} ranks, {result['backend']}, link {result['link']}"
    )
    drawing, said = figures.timeline(spans, width=960, title=title)
    (folder / "timeline.svg").write_text(drawing.standalone(f"{title}. {said}."))
    arguments = os.environ.get("TOY_ARGUMENTS", "").replace(str(folder), folder.name)
    write_provenance(
        f"python -m tensor_parallel_toy {arguments}".strip(),
        folder,
        FILES,
        packages=("torch",),
        what=f"tensor_parallel_toy profile, {result['ranks']} ranks, link: {result['link']}",
    )
    return folder
