"""How full fewer microbatches than stages keep a pipeline, and the questions asked of one model."""

import figures
from labbook.labs import solution

lab04 = solution("lab-04")
capstone = solution("capstone")

from planner import hardware, memory, models, plans  # noqa: E402
from planner.timing import Load  # noqa: E402

busy = {
    (p, m): lab04.decode_steps_per_s(p, m, 1.0, 0.0) / lab04.decode_steps_per_s(p, p, 1.0, 0.0)
    for p in range(2, 9)
    for m in range(1, p + 1)
}
idle_by_the_formula = all(abs(share - m / p) < 1e-9 for (p, m), share in busy.items())
pauses_s = sum(figures.times.step()["terms"][name] for name in ("gaps", "host"))

big, box = models.read("qwen2.5-72b"), hardware.box("h100", 2, 8, network="10 GbE")
load, LIMIT_S = Load(2000, 500, 64), 0.03
one = {p: plans.evaluate(big, box, memory.Plan(1, p), load) for p in (2, 4, 8, 16)}
kept = load.prompt + round(box.at(hardware.TYPICAL)["reserved_output"] * load.output)
room = load.utilization * box.reported_bytes
weights = memory.ranks(big, memory.Plan())[0].held_bytes
cache = 2 * load.concurrency * memory.sequence_bytes(one[2].memory, one[2].plan, kept)
rest = {p: sum(found.memory["other"].values()) for p, found in one.items()}
needs = {p: (weights + cache) / p + rest[p] for p in one}
terms = {p: found.terms for p, found in one.items()}
token_s = terms[4]["total"] - terms[4]["messages"] - terms[4]["waits"]
adds = {p: terms[2 * p]["messages"] - terms[p]["messages"] for p in (4, 8)}
reading = {p: terms[p]["weights, arithmetic"] + terms[p]["cache"] for p in one}
saves = {p: reading[p] - reading[2 * p] for p in (4, 8)}
typical = box.at(hardware.TYPICAL)
ridge = typical.flops_per_s(16) / typical["memory_share"] / box.memory_bytes_per_s
legal, _ = plans.evaluate_all(big, box, load)
rates = {c.name: c.times["tokens_per_s"][1] for c in legal if c.times}
first, second = sorted(rates, key=rates.get)[:-3:-1]
walk = [
    [
        "1, fits",
        f"p = 2: ({weights / 1e9:.0f} + {cache / 1e9:.0f}) / 2 + {rest[2] / 1e9:.1f} > "
        f"{room / 1e9:.1f} GB; p = 4: {needs[4] / 1e9:.1f}",
        "TP=4 at least, → 2",
    ],
    ["2, too slow", f"{token_s * 1e3:.0f} < {LIMIT_S * 1e3:.0f} ms", "no, → 4"],
    [
        "4, mostly weights",
        f"{cache / 1e9:.0f} < {weights / 1e9:.0f} GB, {load.concurrency} < {ridge:.0f} tokens",
        "yes, → 3",
    ],
    [
        "3, wider TP",
        f"p = 4: {adds[4] * 1e3:.2f} < {saves[4] * 1e3:.1f} ms; "
        f"p = 8: {adds[8] * 1e3:.0f} > {saves[8] * 1e3:.1f} ms",
        "TP=8, no further",
    ],
    ["5 to 8", f"one node, no experts, {big.num_kv_heads} KV heads for 8 ranks", "no, → 9"],
    [
        "9, a tie",
        f"{first}: {rates[first]:,.0f} tokens/s; {second}: {rates[second]:,.0f}",
        f"no: {first}",
    ],
]
walked = [
    needs[2] > room >= needs[4],
    token_s < LIMIT_S,
    cache < weights and load.concurrency < ridge,
    adds[4] < saves[4] and adds[8] > saves[8],
    big.num_kv_heads >= 8 and not big.num_experts,
    first == "2 x TP8" and not figures.times.tie(rates[first], rates[second]),
]
