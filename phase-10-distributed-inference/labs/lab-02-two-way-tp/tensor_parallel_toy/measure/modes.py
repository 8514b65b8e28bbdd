"""The ways to train the same model that a profile compares, and one measured step of each."""

import dataclasses
import functools
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from ..link import Link
from ..model import Transformer
from ..train import train_step
from . import dtensor, plan, trace
from .patience import be_patient
from .quiet import cores

LEARNING_RATE = 1e-3
WARM_UP = 3  # rounds
DESCRIPTIONS = {
    "no TP": "one rank, one rank's share of the cores",
    "no TP, all cores": "one rank, all cores of the machine",
    "plain": "TP + SP, collectives then GEMMs",
    "sequential": "TP + SP, point-to-point then GEMMs: overlap's own transport, nothing overlapped",
    "overlap": "TP + SP, overlapped in the way whose whole steps were fastest",
    "overlap, input kept": "the same, the gathered input kept instead of gathered again",
    "overlap, gloo": "the same as overlap over gloo, DTensor's wire",
    "DTensor": "torch.distributed.tensor.parallel, TP + SP, on gloo as it comes",
    "DTensor, patient": "the same, gloo's thread treated as overlap treats it (patience.py)",
    "compute only": "overlap without its messages",
}
# Ways to overlap, as (TensorParallel.overlap, default_plan, plans)
WAYS = {
    "sequential": (True, ("sequential", 1), {}),
    "1 piece": (True, ("overlap", 1), {}),
    "2 pieces": (True, ("overlap", 2), {}),
}
SETTINGS = {
    "plain": (False, ("overlap", 1), {}),
    "sequential": WAYS["sequential"],
    "compute only": (True, ("computation", 1), {}),
}


def names(tp):
    """The modes that mean something on this link."""
    left_out = set() if tp.link.name == "shm" else {"overlap, gloo"}
    if tp.link.name.startswith("simulated"):  # it cannot slow collectives down
        left_out |= {"plain", "DTensor", "DTensor, patient"}
    return [name for name in DESCRIPTIONS if name not in left_out]


class Mode:
    """One model, its optimizer, and what its steps have shown."""

    def __init__(self, name, config, tp, overlap=WAYS["1 piece"]):
        self.name, self.tp = name, tp
        self.alone, self.dtensor = name.startswith("no TP"), name.startswith("DTensor")
        self.settings = SETTINGS.get(name, overlap)
        self.link = Link(tp.group) if name == "overlap, gloo" else tp.link
        self.runs_here = not self.alone or tp.rank == 0
        self.threads = cores() if name == "no TP, all cores" else max(1, cores() // tp.size)
        self.taken = []  # what each step has shown, see `one_step`
        if not self.runs_here:
            return
        if name == "overlap, input kept":
            config = dataclasses.replace(config, keep_gathered=True)
        if self.dtensor:
            self.model = dtensor.build(config, tp)
        else:
            self.model = Transformer(config, None if self.alone else tp, tp.device)
        local = [p for p in self.model.parameters() if not isinstance(p, dtensor.DTensor)]
        sharded = [p for p in self.model.parameters() if isinstance(p, dtensor.DTensor)]
        groups = [{"params": local}, {"params": sharded}]  # fused Adam cannot mix them in one
        self.optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE, fused=True)

    @property
    def place(self):
        return None if self.alone else self.tp

    def apply(self):
        """Make the group work in this mode's way."""
        self.tp.overlap, self.tp.default_plan, self.tp.plans = self.settings
        self.tp.link = self.link
        be_patient(self.tp, self.name not in ("plain", "DTensor"))
        if self.link.name == "shm":  # no thread moves its messages
            self.tp.after_operation = None

    def step(self, tokens, labels):
        self.apply()
        settle = dtensor.settle if self.dtensor else None
        return train_step(self.model, self.optimizer, tokens, labels, self.place, settle)

    def counted(self):
        """The steps that count; all warm ones if too few were quiet."""
        accepted = [step for step in self.taken if step["accepted"]]
        return accepted if len(accepted) >= 3 else self.taken[WARM_UP:]


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
            step = functools.partial(mode.step, tokens, labels)
            seconds[name].append(plan.timed(tp, step))
    seconds = {name: median(times[1:]) for name, times in seconds.items()}
    best = min((name for name in ways if name != "sequential"), key=seconds.get)
    return (best, ways[best]), seconds


def train_interleaved(tp, modes, tokens, labels, steps, quiet):
    """Round-robin until every mode has `steps` accepted steps after the warm-up."""
    for round_ in range(WARM_UP + (4 if quiet.limit else 1) * steps):
        for mode in modes:
            mode.taken.append(one_step(tp, mode, tokens, labels, quiet, round_ >= WARM_UP))
        if all(sum(step["accepted"] for step in mode.taken) >= steps for mode in modes):
            break


def one_step(tp, mode, tokens, labels, quiet, counts):
    """Times are the slowest rank's; `own` are this rank's seconds by activity."""
    threads = torch.get_num_threads()
    torch.set_num_threads(mode.threads)
    tp.recorder = recorder = trace.Recorder()
    sent = mode.link.sent_bytes
    plan.synchronize(tp)
    quiet.start(wait=counts)
    before = clocks()
    loss = norm = torch.zeros((), dtype=torch.float64)
    if mode.runs_here:
        loss, norm = mode.step(tokens, labels)
        plan.synchronize(tp)
    own = {name: value - before[name] for name, value in clocks().items()}
    tp.recorder = None
    torch.set_num_threads(threads)
    if mode.alone:
        dist.barrier(group=tp.group)  # the others wait here, asleep
    step_s, exposed_s = tp.largest(own["wall"], recorder.exposed_s())
    is_quiet = quiet.stop()
    return {
        "loss": float(loss),
        "gradient_norm": float(norm),
        "accepted": counts and is_quiet,
        "step_s": step_s,
        "exposed_s": exposed_s,
        "own": own | recorder.seconds,
        "sent_bytes": mode.link.sent_bytes - sent,
    }


def clocks():
    """Seconds: on the wall, of this thread on a processor, and of it ready while no processor was
    free (Linux)."""
    schedstat, ready = Path("/proc/self/schedstat"), 0.0
    if schedstat.exists():
        ready = int(schedstat.read_text().split()[1]) / 1e9
    return {"wall": time.perf_counter(), "on a processor": time.thread_time(), "ready": ready}
