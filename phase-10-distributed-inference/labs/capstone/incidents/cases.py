"""The incidents: how each is made, and the number under which its recordings are kept.

The numbers say nothing, so that the file's name is no answer; recordings/answers.json is one.
"""

import json
import tempfile

from live import sleeping_stages

from incidents import faults, pp, tp
from labkit.loading import choose_lab, find_labs

STAGE_S = {"even-stages": (0.05, 0.05, 0.05, 0.05), "slow-stage": (0.05, 0.05, 0.1, 0.05)}
STAGE_S["exam"] = (0.05, 0.05, 0.062, 0.08)

# name: (number, cause, where, number of the healthy run of the same plan)
CASES = {
    "healthy": (4, "healthy", None, 4),
    "slow-rank": (9, "slow-rank", 1, 4),
    "busy-neighbour": (2, "busy-neighbour", 1, 4),
    "disturbed": (13, "disturbed", None, 4),
    "two-hosts": (7, "healthy", None, 7),
    "slow-link": (11, "slow-link", "link", 7),
    "unsteady-link": (1, "unsteady-link", "link", 7),  # no page shows it: the page's exam
    "two-replicas": (6, "replicas", None, 4),
    "copied-heads": (14, "copied-heads", None, 4),
    "one-in-flight": (3, "starved", None, 8),
    "two-in-flight": (15, "healthy", None, 8),
    "four-in-flight": (10, "healthy", None, 8),
    "eight-in-flight": (8, "healthy", None, 8),
    "even-stages": (12, "healthy", None, 12),
    "slow-stage": (5, "slow-stage", 2, 12),
    "exam": (16, "slow-stage", 3, 12),  # no page shows it either
    "overlap": (18, "healthy", None, 18),
    "overlap-lost": (17, "no-overlap", None, 18),
}
# Cases of one group are made by one start of the same processes.
GROUPS = {
    "one-host": ("healthy", "slow-rank", "busy-neighbour", "disturbed"),
    "two-hosts": ("two-hosts", "slow-link", "unsteady-link"),
    "replicas": ("two-replicas",),
    "heads": ("copied-heads",),
    "pipeline": ("one-in-flight", "two-in-flight", "four-in-flight", "eight-in-flight"),
    "stages": ("even-stages", "slow-stage"),
    "training": ("overlap", "overlap-lost"),
    "exam": ("exam",),
}
NEIGHBOURS = {"busy-neighbour": (1,), "disturbed": (0, 1)}  # cores that others use on purpose
# There is no slow rank across two hosts: tried, a rank that waits for the network saves its quota
# and computes at full speed, and a neighbour delays every message by the time it may run on.
FAULTS = {
    "slow-rank": faults.quota(1, 0.5),
    **{name: faults.neighbours(*cores) for name, cores in NEIGHBOURS.items()},
    "slow-link": faults.slow_link("50mbit"),
    "unsteady-link": faults.unsteady_link("10mbit", bad_s=0.1, every_s=0.5),
}

DONE = {  # to the machine, or by who started it
    "slow-rank": "a quota of half a core for rank 1",
    "busy-neighbour": "an endless loop of somebody else's on core 1",
    "disturbed": "endless loops of somebody else's on both cores",
    "slow-link": "a cable of 50 Mbit/s, 0.00625 GB/s",
    "unsteady-link": "the cable fell to 10 Mbit/s for 0.1 s of every 0.5 s",
    "two-replicas": "two engines were started, each with TP=1",
    "copied-heads": "the model has one KV head, for two ranks",
    "one-in-flight": "requests came one at a time",
    "slow-stage": "stage 2 slept twice as long as the others",
    "exam": "stages 2 and 3 slept 24% and 60% longer",
    "overlap-lost": "the ranks ran the order without overlap",
}


def group_of(name):
    return next(group for group, names in GROUPS.items() if name in names)


def make(group, names, repeats):
    """{name: [evidence of each repeat]}; repeats of a group's cases take turns."""
    with tempfile.TemporaryDirectory() as folder:
        if group == "pipeline":
            found = pp.record(folder, repeats)
            return {name: found[1 << GROUPS[group].index(name)] for name in names}
        if group == "training":
            modes = {"overlap": "overlap", "overlap-lost": "sequential"}
            return {name: [training(modes[name])] for name in names}  # there is one capture
        order = [name for _ in range(repeats) for name in names]
        if group in ("stages", "exam"):
            counts = [(16, 4, 8)[n // len(names) % 3] for n in range(len(order))]
            made = stages([(STAGE_S[name], m) for name, m in zip(order, counts, strict=True)])
        else:
            made = tp.record(
                [FAULTS.get(name, faults.nothing) for name in order],
                folder,
                tp_sizes=(1, 1) if group == "replicas" else (2,),
                cable=group == "two-hosts",
                num_kv_heads=1 if group == "heads" else 4,
            )
        return {
            name: [evidence for which, evidence in zip(order, made, strict=True) if which == name]
            for name in names
        }


def training(mode):
    """A training step of the toy (lab 02) in one of its modes, as its capture holds it.

    Spans [lane, name, began, ended] per rank, in microseconds: lane is GEMM, wait or issue.
    """
    capture = choose_lab("lab-02", find_labs()).path / "captures" / "toy-simulated-1gbit"
    timeline = json.loads((capture / "timeline.json").read_text())[mode]
    zero = min(began for spans in timeline for _, _, began, _ in spans)
    since = [
        [[lane, name, *(round(1e6 * (at - zero)) for at in times)] for lane, name, *times in spans]
        for spans in timeline
    ]
    return {"plan": {"tp_size": len(timeline), "pp_size": 1, "overlap": True}, "spans": since}


def stages(plan):
    """The evidence of each run of lab 04's pipeline: per stage and microbatch four times."""
    made = []
    for (stage_s, m), run in zip(plan, sleeping_stages.run(plan), strict=True):
        zero = run[0][0][0]
        rows = [[[round(1e6 * (at - zero)) for at in row] for row in stage] for stage in run]
        asked = {"pp_size": len(run), "tp_size": 1, "microbatches": m, "stage_s": stage_s[0]}
        made.append({"plan": asked, "microbatches": rows})
    return made
