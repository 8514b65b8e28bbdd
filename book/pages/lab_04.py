"""Pipelines: bubbles, and what the splits of a box make."""

import figures
from labbook.amounts import human_bytes
from labbook.labs import facts, solution

lab04 = solution("lab-04")
step, rate = figures.times.step, figures.times.rate
slow_bubble = 1 - lab04.Fraction(8 * (1 + 1 + 2 + 1), 4 * lab04.makespan_s([1, 1, 2, 1], 8))
one, lone, four, batch4 = step(), step(pp=4), step(pp=4, clients=4), step(clients=4)
lone_waits = lone["best"] >= one["best"] and lone["typical"] >= one["typical"]
four_gain_nothing = (
    four["typical"] > batch4["typical"] / 1.02 and four["floor"] > 0.9 * batch4["floor"]
)
slow = [lab04.makespan_s(stages, 8) for stages in ([1, 1, 2, 1], [1, 1, 1, 2], [1, 1, 1, 1])]
took_11_now_19 = slow == [19, 19, 11]
wherever_it_stands = all(
    lab04.makespan_s([k, 10, 10, 10], 32) == lab04.makespan_s([10, 10, 10, k], 32)
    for k in (11, 15, 20)
)
by_flight = [lab04.decode_steps_per_s(4, n, 4, 1) for n in range(1, 41)]  # a hop lasts a stage
full_at = by_flight.index(max(by_flight)) + 1
split_rows = []
for pp in (1, 2, 4, 8, 16):
    bill = lab04.plan_bill(16 // pp, pp, 8, 80, 8192, 1, 64)
    name = " x ".join(f"{k}={n}" for k, n in (("TP", 16 // pp), ("PP", pp)) if n > 1)
    more = f" (two levels: {2 * 2 * 80})" if pp == 1 else " and 1 back"
    crossing = human_bytes(float(bill["bytes_between_nodes"]))
    bubble, waits = f"{float(bill['bubble']):.1%}", f"{bill['node_hops']:,}{more}"
    split_rows.append([name, bubble, waits, crossing])
quoted = {f["id"]: f["value"] for f in facts().values() if f["id"].startswith("tppp-")}

pairs = [(p, m) for p in range(1, 13) for m in range(1, 41)]
counted = [lab04.grid_bubble(lab04.schedule_grid(p, m)) for p, m in pairs]

ways = {"one GPU": {}, "four replicas": {"replicas": 4}, "PP=4": {"pp": 4}, "TP=4": {"tp": 4}}
ways |= {f"{way}, 10 GbE": ways[way] | dict(nodes=4, per_node=1) for way in ("PP=4", "TP=4")}
made = {n: {w: rate(clients=n, **asked) for w, asked in ways.items()} for n in (4, 64, 256)}
of = {n: {w: found["typical"] for w, found in rates.items()} for n, rates in made.items()}
rows = [[w, *(figures.times.tokens(made[n][w]) for n in made)] for w in ways]

uneven = lab04.makespan_s([15, 15, 16, 15], 32) / lab04.makespan_s([61 / 4] * 4, 32)
published_rows = [
    [
        "8 × L4 on shared PCIe, vLLM, 70B in FP8, eager",
        "tokens/s",
        f"{quoted['tppp-l4-tp4pp2']:.0f} (TP=4 x PP=2)",
        f"**{quoted['tppp-l4-tp2pp4']:.0f}** (TP=2 x PP=4)",
        "[substratus.ai](https://substratus.ai/blog/benchmarking-llama-3.1-70b-on-l4)",
    ],
    [
        "4 × A100 on NVLink, 13B, 3 requests/s",
        "90th percentile of latency, s",
        f"**{quoted['tppp-a100-tp4pp1']}** (TP=4)",
        f"{quoted['tppp-a100-tp2pp2']} (TP=2 x PP=2)",
        "[TensorRT-LLM #1144](https://github.com/NVIDIA/TensorRT-LLM/issues/1144)",
    ],
]
bubble_rows = [
    [p] + [f"{float(lab04.bubble_fraction(p, m)):.1%}" for m in (1, 4, 16, 64)] for p in (2, 4, 8)
]
time_rows = [
    figures.times.row("one GPU, one user"),
    figures.times.row("PP=4, one user", pp=4),
    figures.times.row("one GPU, four users", clients=4),
    figures.times.row("PP=4, four users", pp=4, clients=4),
]

# What the page says, held.
counted_as_computed = counted == [lab04.bubble_fraction(p, m) for p, m in pairs]
less_than_replicas = 0.7 < of[64]["PP=4"] / of[64]["four replicas"] < 0.95
only_the_pipeline_bears_it = (
    of[64]["PP=4, 10 GbE"] > 0.9 * of[64]["PP=4"] and of[64]["TP=4, 10 GbE"] < 0.5 * of[64]["TP=4"]
)
