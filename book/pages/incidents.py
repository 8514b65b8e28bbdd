"""What the recorded incidents hold, and how far the faults lie from healthy days."""

import re
import statistics

import figures
from incidents import look as looking
from incidents import recorded, simulated
from labbook.labs import model, solution

lab02 = solution("lab-02")
capstone = solution("capstone")

known = recorded.answers()
looks = [look for name, look in vars(capstone).items() if name.startswith("look_at_")]
documented = {"healthy"}
for look in looks:
    documented |= set(re.findall(r'^ *"([a-z-]+)" ', look.__doc__, re.M))
asked = [
    ["the start-up", "smaller world sizes than planned?", "replicas"],
    ["", "more KV heads held than there are?", "copied-heads"],
    ["ranks of tensor parallelism", "others on a core, not the slow rank's?", "disturbed"],
    ["", "one computes longer, core shared?", "busy-neighbour"],
    ["", "one computes longer, core its own?", "slow-rank"],
    ["", "the typical transfer longer?", "slow-link"],
    ["", "only the slowest transfers longer?", "unsteady-link"],
    ["stages of a pipeline", "fewer requests in flight than stages?", "starved"],
    ["", "one stage busier than the others?", "slow-stage"],
    ["a training step", "a larger share of it spent waiting?", "no-overlap"],
    ["none of these", "", "healthy"],
]
causes = [cause for _, _, cause in asked]
questions = []
for of, question, cause in asked:
    questions += [[f"<strong>{of}</strong>", ""]] if of and question else []
    questions.append([question or f"<strong>{of}</strong>", f"<code>{cause}</code>"])


def number_of(cause):
    return next(n for n, answer in sorted(known.items()) if answer["cause"] == cause)


def decode_steps(evidence):
    steps = evidence["ranks"][0]["steps"]
    return sorted(s["end_us"] - s["start_us"] for s in steps if s["tokens"] == s["requests"])


def last_ones(evidence):
    """How often each rank is the last to come to a collective."""
    last = [0] * len(evidence["ranks"])
    for steps in zip(*(rank["steps"] for rank in evidence["ranks"]), strict=True):
        for calls in zip(*(step["collectives"] for step in steps), strict=True):
            stays = [left - entered for *_, entered, left in calls]
            last[stays.index(min(stays))] += 1
    return [count / sum(last) for count in last]


well = (recorded.load(n) for n, a in sorted(known.items()) if a["cause"] == "healthy")
healthy = next(run for run in well if "ranks" in run)
neighbour = recorded.load(number_of("busy-neighbour"))
messages = lab02.collectives_per_step(model("qwen2.5-72b"), 8, 1, 1)["all_reduces"]
alone_s, pair_s = (
    figures.times.step(clients=64, **way)["typical"] for way in ({"replicas": 2}, {"tp": 2})
)


def late(p):
    return 1 - (1 - p) ** messages


busy = [statistics.fmean(column) for column in zip(*neighbour["processor"]["ranks"], strict=True)]


seen = []
for n, answer in known.items():
    for repeat in range(recorded.repeats(n)):
        numbers = dict(capstone.diagnose(recorded.load(n, repeat))["numbers"])
        if "waited" in numbers:
            numbers["lost"] = numbers["waited"] - numbers["usually_waited"]
        seen.append((answer["cause"], numbers))
compute_line = f"{(1.25 * 1.5) ** 0.5:.2f}"
apart, least = [], {}
for name, what, causes_of, line in (
    ("compute_ratio", "a rank's median computing, with the fastest one's",
     "slow-rank busy-neighbour", compute_line),
    ("foreign", "the share of a core that others used", "busy-neighbour disturbed", "0.10"),
    ("transfer_ratio", "a decode step's median transfer, with the healthy run's", "slow-link",
     "1.6"),
    ("tail_ratio", "its 99th percentile, with the healthy run's", "unsteady-link", "2.4"),
    ("busy_ratio", "a stage's median busy time, with the typical stage's", "slow-stage", "1.37"),
    ("lost", "the share of a training step waited, less the healthy run's", "no-overlap", "0.10"),
):  # fmt: skip
    faulty = [n[name] for cause, n in seen if name in n and cause in causes_of.split()]
    others = [n[name] for cause, n in seen if name in n and cause not in causes_of.split()]
    least[name] = min(faulty)
    apart.append([what, f"{max(others):.2f}", f"{least[name]:.2f}", line])
slowest_ratio, tail_ratio = least["transfer_ratio"], least["tail_ratio"]

said = capstone.diagnose(neighbour)
parts, usual = capstone.decompose(neighbour), capstone.decompose(neighbour["healthy"])


def ms(values, run):
    """The median over decode steps."""
    steps = zip(values, run["ranks"][0]["steps"], strict=True)
    return f"{statistics.median(v for v, s in steps if s['tokens'] == s['requests']) / 1e3:.2f}"


neighbour_rows = []
for name, p, run in (("healthy day", usual, neighbour["healthy"]), ("today", parts, neighbour)):
    transfer = ms([sum(step) for step in p["transfer_us"]], run)
    for rank in (0, 1):
        own = [ms(p[of][rank], run) for of in ("compute_us", "wait_us")]
        neighbour_rows.append([name, rank, *own, transfer])

kinds = (
    ("healthy", {}),
    ("slow: every step", {"latency_factor": 4.0}),
    ("unsteady: one step in ten", {"latency_factor": 12.0, "bad_steps": 0.1}),
)
link_rows, median_of = [], {}
for name, fault in kinds:
    run, _ = simulated.tensor_parallel(7, num_steps=400, link=(100.0, 2000.0), **fault)
    steps = decode_steps(run)
    median_of[name] = statistics.median(steps)
    worst = steps[int(0.99 * len(steps))]
    link_rows.append([name, f"{median_of[name] / 1e3:.1f}", f"{worst / 1e3:.1f}"])
ratio = median_of["unsteady: one step in ten"] / median_of["healthy"]

copied, doubled = (recorded.load(number_of(cause)) for cause in ("copied-heads", "replicas"))
found = [capstone.look_at_ranks(copied), capstone.look_at_ranks(doubled)]
found.append(capstone.look_at_link(copied))
silent = not looking.has_collectives(doubled)
no_rank_is_slow = {look["cause"] for look in found} == {"healthy"}

starved = capstone.diagnose(recorded.load(number_of("starved")))

stage = capstone.diagnose(recorded.load(number_of("slow-stage")))

exposed = capstone.diagnose(recorded.load(number_of("no-overlap")))

days = figures.engine.tuesday_parts()
computing, waiting, moving = days["today"]
usual_compute, usual_wait, usual_moving = days["healthy"]
suspect = computing.index(max(computing))
others = [x for rank, x in enumerate(computing) if rank != suspect]
longer = (computing[0] + waiting[0] + moving) / (usual_compute[0] + usual_wait[0] + usual_moving)

intercepts = [numbers["latency_us"] for cause, numbers in seen if cause == "slow-link"]
by_keys = {}
for n in sorted(known):
    keys = tuple(sorted(set(recorded.load(n)) - {"plan", "healthy"}))
    by_keys.setdefault(keys, []).append(f"{n:02}")
whose = {"ranks": "vLLM, ranks of tensor parallelism", "stages": "vLLM, stages of a pipeline"}
whose |= {"microbatches": "lab 04's pipeline", "spans": "a training step of lab 02's toy"}
kept = []
for keys, numbers in by_keys.items():
    of = next(of for key, of in whose.items() if key in keys)
    kept.append([" ".join(numbers), of, ", ".join(f"`{k}`" for k in keys)])


def excerpt(evidence):
    """Lines of the evidence of one recording, of rank 1."""
    plan, first = evidence["plan"], evidence["ranks"][1]["steps"][1]
    return [
        f"plan       tp_size {plan['tp_size']}  pp_size {plan['pp_size']}",
        f"start_up   { ({k: evidence['start_up'][1][k] for k in ('rank', 'world_size')}) }",
        f"a step     { ({k: first[k] for k in ('start_us', 'end_us', 'requests', 'tokens')}) }",
        f"its calls  {first['collectives'][0]}  [operation, bytes, entered, left]",
        f"           {first['collectives'][1]}",
        f"processor  ranks {evidence['processor']['ranks'][1]}  one sample of 0.1 s",
        f"           cores {evidence['processor']['cores'][1]}",
        "healthy    the same keys, from a healthy day",
    ]


link_said, ranks_said = (capstone.look_at_link.__doc__, capstone.look_at_ranks.__doc__)
lines_are_told = "above 1.37" in ranks_said and "1.6 times" in link_said and "2.4" in link_said
only_rank_5 = (
    suspect == 5
    and waiting[5] < 0.1
    and max(others) < 1.1 * max(usual_compute)
    and 1.4 < longer < 1.6
)

# What the page says, held.
late_in_seven = 0.14 < late(0.001) < 0.16 and 0.79 < late(0.01) < 0.81
only_the_worst_differs = ratio < 1.05 and float(link_rows[2][2]) > 1.5 * float(link_rows[0][2])
start_ups_name_them = all(
    capstone.diagnose(recorded.load(number_of(c)))["cause"] == c
    for c in ("replicas", "copied-heads")
)
causes_documented = set(causes) == {answer["cause"] for answer in known.values()} == documented
fast_alone = alone_s > 1.15 * pair_s and silent
neighbour_found = (
    said["cause"] == "busy-neighbour"
    and said["where"] == known[number_of("busy-neighbour")]["where"]
)
exposed_is_found = exposed["cause"] == "no-overlap" and exposed["cost"] > 0.05
tails_apart = 1.6 < slowest_ratio and 2.4 < tail_ratio
transfer_as_always = abs(moving / usual_moving - 1) < 0.1
