"""Train every mode on the same data; what it costs, what it hides, and the pictures of it.

Modes take turns step by step, so that whatever else the machine does hits all of them alike.
Times are the slowest rank's, between a barrier and a synchronisation.
"""

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import torch
import torch.distributed as dist

from . import dtensor, figures, plan, trace
from .config import ModelConfig
from .load import Quiet, cores
from .model import Transformer
from .train import make_batch, saved_bytes, train_step

WARM_UP = 3
LEARNING_RATE = 1e-3
# modes that a simulated link cannot slow down
COLLECTIVE = ("plain", "DTensor", "DTensor, patient")
DESCRIPTIONS = {
    "no TP": "one rank, one rank's share of the cores",
    "no TP, all cores": "one rank, all cores of the machine",
    "plain": "TP + SP, collectives then GEMMs",
    "sequential": "TP + SP, point-to-point then GEMMs: overlap's own transport, nothing overlapped",
    "overlap": "TP + SP, overlapped in the way whose whole steps were fastest",
    "DTensor": "torch.distributed.tensor.parallel, TP + SP, on gloo as it comes",
    "DTensor, patient": "the same, gloo's thread treated as overlap treats it (Link.set_patient)",
    "compute only": "overlap without its messages",
}


# Ways to overlap, as (TensorParallel.overlap, default_plan, plans)
WAYS = {
    "sequential": (True, ("sequential", 1), {}),
    "1 piece": (True, ("overlap", 1), {}),
    "2 pieces": (True, ("overlap", 2), {}),
}


class Mode:
    """One model, its optimizer, and what its steps have shown."""

    def __init__(self, name, config, tp, overlap=WAYS["1 piece"]):
        self.name, self.config, self.tp = name, config, tp
        self.alone = name.startswith("no TP")
        self.settings = {
            "plain": (False, ("overlap", 1), {}),
            "sequential": WAYS["sequential"],
            "compute only": (True, ("computation", 1), {}),
        }.get(name, overlap)
        self.runs_here = not self.alone or tp.rank == 0
        self.threads = cores() if name == "no TP, all cores" else max(1, cores() // tp.size)
        self.loss, self.norm, self.step_s, self.exposed_s, self.gemm_s = [], [], [], [], []
        self.foreign, self.accepted, self.sent_bytes, self.wire_bytes = [], [], [], []
        if not self.runs_here:
            return
        self.dtensor = name.startswith("DTensor")
        if self.dtensor:
            self.model = dtensor.build(config, tp)
        else:
            self.model = Transformer(config, None if self.alone else tp, tp.device)
        local = [p for p in self.model.parameters() if not isinstance(p, dtensor.DTensor)]
        sharded = [p for p in self.model.parameters() if isinstance(p, dtensor.DTensor)]
        self.optimizers = [
            torch.optim.Adam(group, lr=LEARNING_RATE, fused=True)
            for group in (local, sharded)
            if group
        ]

    def step(self, tokens, labels):
        apply(self.tp, self.settings)
        self.tp.link.set_patient(self.name not in ("plain", "DTensor"))
        if self.dtensor:
            return dtensor.train_step(self.model, self.optimizers, tokens, labels, self.tp)
        place = None if self.alone else self.tp
        return train_step(self.model, self.optimizers[0], tokens, labels, place)


def apply(tp, settings):
    tp.overlap, tp.default_plan, tp.plans = settings


def profile(tp, config, steps=20, quiet=0.0, out="toy-profile"):
    """Everything `python -m tensor_parallel_toy profile` does -> {"ok", "folder"}."""
    if tp.size < 2:
        raise ValueError("one rank has nobody to talk to: profile with 2 ranks or more")
    config = ModelConfig(**config)
    say = print if tp.rank == 0 else lambda *_, **__: None
    say(f"{tp.size} ranks, {dist.get_backend(tp.group)}, link {link_name(tp)}", flush=True)
    quiet = Quiet(tp, quiet)
    table = plan.measure(tp, config, quiet, repeats=min(steps, 7))
    for entry in table:
        say(f"  {entry['layer']:8} {entry['operation']:16} {entry['reason']}", flush=True)
    tokens, labels = make_batch(config, tp.device)
    simulated = tp.link.name.startswith("simulated")
    left_out = COLLECTIVE if simulated else ()
    if simulated:
        say("  collectives do not pass the simulated link: without plain and DTensor")
    way, candidates = choose(tp, config, table, tokens, labels)
    listed = ", ".join(f"{name} {1e3 * seconds:.0f}" for name, seconds in candidates.items())
    say(f"  whole steps, ms: {listed}; overlap is from here on: {way[0]}", flush=True)
    modes = [Mode(name, config, tp, way[1]) for name in DESCRIPTIONS if name not in left_out]
    train_interleaved(tp, modes, tokens, labels, steps, quiet)
    memory = {mode.name: measure_memory(tp, mode, tokens, labels) for mode in modes}
    timeline = record_mlp(tp, config, modes)
    blocked = {
        mode.name: blocked_in_collectives(tp, mode, tokens, labels)
        for mode in modes
        if mode.name.startswith("DTensor")
    }
    whole_step = record_step(tp, modes, tokens, labels)
    records = gather(
        tp,
        {
            "timeline": timeline,
            "step": whole_step,
            "memory": memory,
            "sent": {m.name: m.sent_bytes for m in modes},
        },
    )
    dist.barrier()
    if tp.rank == 0:
        result = summarize(tp, config, modes, table, records, quiet, blocked)
        result["candidates_s"], result["chosen"] = candidates, way[0]
        folder = write(Path(out), result, records)
        print_table(result)
        print(
            f"written to {folder}/: profile.json, curves.svg, timeline.svg, trace.json "
            "(open it at ui.perfetto.dev), provenance.json"
        )
        return {"ok": result["losses_coincide"], "folder": str(folder)}
    return {"ok": True}


def choose(tp, config, table, tokens, labels, repeats=5):
    """The overlapped way with the fastest whole steps -> ((name, settings), {name: seconds}).

    Layers measured alone cannot decide it: the GEMMs that one leaves for later fill another's
    waits. "by layer" is what they would have decided.
    """
    ways = WAYS | {"by layer": (True, ("overlap", 1), plan.plans(table))}
    mode = Mode("overlap", config, tp)
    seconds = {name: [] for name in ways}
    for _ in range(1 + repeats):
        for name, mode.settings in ways.items():
            seconds[name].append(plan.timed(tp, lambda: mode.step(tokens, labels)))
    seconds = {name: plan.median(times[1:]) for name, times in seconds.items()}
    best = min((name for name in ways if name != "sequential"), key=seconds.get)
    return (best, ways[best]), seconds


def link_name(tp):
    if tp.link.name == "gloo" and os.environ.get("TOY_LINK_NAME"):
        return os.environ["TOY_LINK_NAME"]
    return {
        "gloo": "loopback" if os.environ.get("GLOO_SOCKET_IFNAME", "lo") == "lo" else "gloo"
    }.get(tp.link.name, tp.link.name)


def train_interleaved(tp, modes, tokens, labels, steps, quiet):
    """Round-robin until every mode has `steps` accepted steps after the warm-up."""
    for round_ in range(WARM_UP + (4 if quiet.limit else 1) * steps):
        for mode in modes:
            one_step(tp, mode, tokens, labels, quiet, counts=round_ >= WARM_UP)
        if round_ >= WARM_UP and all(sum(mode.accepted) >= steps for mode in modes):
            break


def one_step(tp, mode, tokens, labels, quiet, counts):
    threads = torch.get_num_threads()
    torch.set_num_threads(mode.threads)
    tp.recorder = recorder = trace.Recorder()
    sent, wire = tp.link.sent_bytes, card_bytes()
    plan.synchronize(tp)
    if counts:
        quiet.wait()
    quiet.start_now()
    start = time.perf_counter()
    loss = norm = torch.zeros((), dtype=torch.float64)
    if mode.runs_here:
        loss, norm = mode.step(tokens, labels)
        plan.synchronize(tp)
    end = time.perf_counter()
    tp.recorder = None
    torch.set_num_threads(threads)
    if mode.alone:
        dist.barrier(group=tp.group)  # the others wait here, asleep
    elapsed = end - start
    worst = torch.tensor(
        [elapsed, recorder.exposed_s(), recorder.gemm_s()], dtype=torch.float64, device=tp.device
    )
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    wire = card_bytes() - wire
    foreign, is_quiet = quiet.stop()
    mode.loss.append(float(loss))
    mode.norm.append(float(norm))
    mode.accepted.append(counts and is_quiet)
    mode.foreign.append(foreign)
    for values, value in zip(
        (mode.step_s, mode.exposed_s, mode.gemm_s), worst.tolist(), strict=True
    ):
        values.append(value)
    mode.sent_bytes.append(tp.link.sent_bytes - sent)
    mode.wire_bytes.append(wire)


def card_bytes():
    """Bytes this rank's network card has sent (Linux; 0 elsewhere). Loopback is shared by all."""
    card = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    counter = Path(f"/sys/class/net/{card}/statistics/tx_bytes")
    return int(counter.read_text()) if counter.exists() else 0


def measure_memory(tp, mode, tokens, labels):
    """{"saved_bytes", "peak_bytes"} of this rank, 0 where the mode does not run."""
    if mode.name == "compute only" or not mode.runs_here:
        dist.barrier()
        return {"saved_bytes": 0, "peak_bytes": 0}
    apply(tp, mode.settings)
    saved = saved_bytes(mode.model, tokens, labels, None if mode.alone else tp)
    if tp.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        mode.step(tokens, labels)
        peak = torch.cuda.max_memory_allocated() - before
    else:
        before = resident("VmRSS", reset=True)
        mode.step(tokens, labels)
        peak = resident("VmHWM") - before
    dist.barrier()
    return {"saved_bytes": saved, "peak_bytes": peak}


def resident(field, reset=False):
    """Resident memory now (VmRSS) or at its highest since the last reset (VmHWM); Linux only."""
    try:
        if reset:
            with contextlib.suppress(AttributeError, OSError):
                ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps would hide the growth
            Path("/proc/self/clear_refs").write_text("5")
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def record_mlp(tp, config, modes, repeats=9):
    """Timelines of one MLP forward and backward; of `repeats` runs the one of median length."""
    mlp = next(mode for mode in modes if mode.name == "overlap").model.blocks[0].mlp
    generator = torch.Generator().manual_seed(3)
    size = (config.seq_len // tp.size, config.batch_size, config.hidden_size)
    x, gradient = [
        torch.randn(size, generator=generator, dtype=torch.float64).to(
            tp.device, getattr(torch, config.dtype)
        )
        for _ in range(2)
    ]
    settings = {
        mode.name: mode.settings
        for mode in modes
        if mode.name in ("plain", "sequential", "overlap")
    }
    settings["overlap"] = WAYS["2 pieces"]  # the order itself, whichever way was chosen
    runs = {name: [] for name in settings}
    for _ in range(repeats):
        for name, kept in runs.items():
            apply(tp, settings[name])
            leaf = x.clone().requires_grad_()
            with trace.CardWitness() as card:
                tp.recorder = recorder = trace.Recorder(wire=True)
                seconds = plan.timed(tp, functools.partial(forward_backward, mlp, leaf, gradient))
                tp.recorder = None
                recorder.finish()
            mlp.zero_grad()
            gemms = [span[2:] for span in recorder.spans if span[0] == "GEMM"]
            kept.append(
                (
                    seconds,
                    {
                        "spans": recorder.spans,
                        "messages": recorder.messages,
                        "card_share_during_gemm": card.share_during(gemms),
                    },
                )
            )
    return {
        name: sorted(kept, key=lambda run: run[0])[len(kept) // 2] for name, kept in runs.items()
    }


def forward_backward(module, x, gradient):
    module(x).backward(gradient)


def record_step(tp, modes, tokens, labels):
    """Every span and message of one whole step, for the trace."""
    records = {}
    for mode in modes:
        if mode.name in ("plain", "sequential", "overlap"):
            dist.barrier(group=tp.group)
            tp.recorder = recorder = trace.Recorder(wire=True)
            mode.step(tokens, labels)
            tp.recorder = None
            recorder.finish()
            records[mode.name] = {"spans": recorder.spans, "messages": recorder.messages}
    return records


def blocked_in_collectives(tp, mode, tokens, labels, repeats=3):
    """Exposed time of a DTensor step: its main thread inside functional collectives, profiled."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    samples = []
    for _ in range(repeats):
        dist.barrier(group=tp.group)
        with torch_profile(activities=[ProfilerActivity.CPU]) as profiled:
            mode.step(tokens, labels)
        samples.append(
            sum(
                event.cpu_time_total / 1e6
                for event in profiled.key_averages()
                if event.key.startswith("_c10d_functional::") and "_wrap" not in event.key
            )
        )
    worst = torch.tensor([plan.median(samples)], dtype=torch.float64, device=tp.device)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item()


def gather(tp, value):
    everyone = [None] * tp.size
    dist.all_gather_object(everyone, value, group=tp.group)
    return everyone


def summarize(tp, config, modes, table, records, quiet, blocked):
    """profile.json: everything the figures and the table show."""
    comm_s = config.num_layers * sum(entry["times_s"]["comm alone"] for entry in table)
    shared = os.environ.get("GLOO_SOCKET_IFNAME", "lo") == "lo"  # one card counts for all ranks
    result = {
        "ranks": tp.size,
        "backend": dist.get_backend(tp.group),
        "link": link_name(tp),
        "device": str(tp.device),
        "config": vars(config) | {},
        "operations": table,
        "comm_alone_s": comm_s,
        "quiet_limit": quiet.limit,
        "modes": {},
    }
    for mode in modes:
        steps = [i for i, accepted in enumerate(mode.accepted) if accepted]
        if len(steps) < 3:  # too few quiet ones: all that are warm, and the JSON says so
            steps = list(range(WARM_UP, len(mode.accepted)))
        seconds = sorted(mode.step_s[i] for i in steps)
        quarter = len(seconds) // 4
        only = mode.name == "compute only"
        result["modes"][mode.name] = {
            "what": DESCRIPTIONS[mode.name],
            "loss": [] if only else mode.loss,
            "gradient_norm": [] if only else mode.norm,
            "step_s": mode.step_s,
            "accepted": mode.accepted,
            "foreign_share": mode.foreign,
            "median_step_s": plan.median(seconds),
            "spread_s": [seconds[quarter], seconds[-1 - quarter]],
            "exposed_s": plan.median([mode.exposed_s[i] for i in steps]),
            "gemm_s": plan.median([mode.gemm_s[i] for i in steps]),
            "saved_bytes": [record["memory"][mode.name]["saved_bytes"] for record in records],
            "peak_bytes": [record["memory"][mode.name]["peak_bytes"] for record in records],
            "sent_bytes": [record["sent"][mode.name][-1] for record in records],
            "wire_bytes": plan.median(mode.wire_bytes) / (tp.size if shared else 1),
        }
    shown = result["modes"]
    for name, seconds in blocked.items():
        shown[name]["exposed_s"] = seconds
    result["bound_s"] = max(shown["compute only"]["spread_s"][0], comm_s)
    idle = comm_s + shown["compute only"]["median_step_s"] - shown["overlap"]["median_step_s"]
    result["hidden_in_step"] = idle / comm_s
    hide = [entry["times_s"] for entry in table]
    best = [min(v for k, v in t.items() if k.startswith("overlap")) for t in hide]
    result["hidden"] = (sum(t["comm alone"] + t["gemm alone"] for t in hide) - sum(best)) / sum(
        t["comm alone"] for t in hide
    )
    losses = [shown[name]["loss"] for name in shown if shown[name]["loss"] and name != "no TP"]
    gaps = [
        abs(a - b) / max(abs(b), 1e-3)
        for loss in losses
        for a, b in zip(loss, shown["no TP"]["loss"], strict=True)
    ]
    result["largest_loss_gap"] = max(gaps)
    # float32: sums in another order, through Adam, over tens of steps
    result["losses_coincide"] = max(gaps) < {"float64": 1e-8, "float32": 1e-2}.get(config.dtype, 1)
    return result


def print_table(result):
    print(
        f"{'mode':17} {'loss':>9} {'grad norm':>9} {'step ms':>8} {'middle half':>15} "
        f"{'exposed ms':>10} {'saved MiB':>9} {'peak MiB':>8} {'sent MiB':>8}"
    )
    for name, mode in result["modes"].items():
        if name == "compute only":
            continue
        low, high = mode["spread_s"]
        print(
            f"{name:17} {mode['loss'][-1]:9.5f} {mode['gradient_norm'][-1]:9.4f} "
            f"{1e3 * mode['median_step_s']:8.1f} {1e3 * low:7.1f}-{1e3 * high:7.1f} "
            f"{1e3 * mode['exposed_s']:10.1f} "
            f"{max(mode['saved_bytes']) / 2**20:9.1f} {max(mode['peak_bytes']) / 2**20:8.1f} "
            f"{mode['wire_bytes'] / 2**20:8.1f}"
        )
    shown = result["modes"]
    step = {name: mode["median_step_s"] for name, mode in shown.items()}
    print(
        f"communication alone {1e3 * result['comm_alone_s']:.1f} ms, compute only "
        f"{1e3 * step['compute only']:.1f} ms (lower quartile "
        f"{1e3 * shown['compute only']['spread_s'][0]:.1f}): overlap can reach "
        f"{1e3 * result['bound_s']:.1f} ms"
    )
    ratios = [
        f"overlap / {name} {step['overlap'] / step[name]:.2f}"
        for name in ("DTensor", "DTensor, patient", "plain", "sequential")
        if name in step
    ]
    print(
        f"{', '.join(ratios)}; hidden {result['hidden_in_step']:.2f} of a step's communication, "
        f"{result['hidden']:.2f} of the layers' measured alone"
    )
    print(
        f"losses of all modes: within {result['largest_loss_gap']:.1e} of no TP"
        + ("" if result["losses_coincide"] else "  THEY DIFFER")
    )


def write(folder, result, records):
    folder.mkdir(parents=True, exist_ok=True)
    runs = {
        name: [record["timeline"][name][1] for record in records] for name in records[0]["timeline"]
    }
    result["card_share_during_gemm"] = {
        name: [record["card_share_during_gemm"] for record in ranks] for name, ranks in runs.items()
    }
    trace.write_json(folder / "profile.json", result)
    trace.write_json(folder / "timeline.json", runs)
    (folder / "curves.svg").write_text(figures.curves(result))
    (folder / "timeline.svg").write_text(figures.timeline(result, runs))
    steps = {name: [record["step"][name] for record in records] for name in records[0]["step"]}
    compact = json.dumps(trace.perfetto(steps), separators=(",", ":"))
    (folder / "trace.json").write_text(compact + "\n")
    write_provenance(folder, result)
    return folder


def write_provenance(folder, result):
    """provenance.json: how to make this folder again, and the hash of each file in it."""
    files = sorted(path for path in folder.iterdir() if path.name != "provenance.json")
    device = "no GPU used" if result["device"] == "cpu" else torch.cuda.get_device_name()
    arguments = os.environ.get("TOY_ARGUMENTS", "").replace(str(folder), folder.name)
    command = f"python -m tensor_parallel_toy {arguments}".strip()
    provenance = {
        "what": f"tensor_parallel_toy profile, {result['ranks']} ranks, {result['backend']}, "
        f"link: {result['link']}",
        "command": os.environ.get("TOY_WRAPPER", "") + command,
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "hardware": f"{cpu_name()}, {os.cpu_count()} cores, {platform.machine()}, {device}",
        "git_commit": git_commit(),
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
    }
    trace.write_json(folder / "provenance.json", provenance)


def cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def git_commit():
    """The commit this package stands at; None outside a git checkout."""
    command = ["git", "rev-parse", "HEAD"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    return found.stdout.strip() or None
