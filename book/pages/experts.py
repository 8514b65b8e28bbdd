"""Lab 05, experts: what the page computes of traffic, skew and the recorded engines."""

from collections import Counter

import figures
import numpy as np
from collectives import record, run_ranks
from labbook.labs import capture, solution

lab05 = solution("lab-05")
e = figures.experts
ring, gathered, exchanged = e.traffic_of_four()
given = e.given()
r1, mixtral = given.MODELS["DeepSeek-R1"], given.MODELS["Mixtral-8x7B"]
expert_bytes = 3 * r1["hidden_size"] * r1["expert_ffn"] * r1["expert_weight_bytes"]
few, many = (lab05.expected_experts(256, 8, n) for n in (8, 512))
half = next(n for n in range(1, 257) if lab05.expected_experts(256, 8, n) >= 128)
fair, unfair = (e.busiest_over_mean(shares, 100) for shares in e.SHARES.values())
cross = e.crossing(2000)
tp, _, dp = e.PLANS
uneven = given.busiest_of(256, 8)  # the busiest rank's load over the mean's
even = e.crossing(2000, busiest=1)
bend = next(n for n in range(1, 10_000) if uneven * lab05.expected_experts(256, 8, n) >= 256)
dp_ms, dp_even_ms = (e.step_ms(16, 2000, dp, busiest) for busiest in (uneven, 1))
halves = 0.4 < (dp_ms - dp_even_ms) / (dp_ms - e.step_ms(16, 2000, tp)) < 0.6
full = e.room(2000, tp)
shorter = e.step_ms(full, 2000, tp) / e.step_ms(full, 2000, dp)
left_out = 1 - r1["top_k"] / r1["num_experts"]
rows = {row["name"]: row for row in given.ROWS}
missed = [row["name"] for row in given.ROWS if row["missed"]]


def order(row):
    """(faster, slower): the bill's milliseconds for what was measured faster, and slower."""
    model, machine = given.MODELS[row["model"]], given.MACHINES[row["machine"]]
    sizes = row["faster"], row["slower"]
    busiest = [given.busiest_of(model["num_experts"], ep) for ep in sizes]
    return [
        1e3 * lab05.moe_step_s(row["tokens"], 0, ep, False, most, model, machine)
        for ep, most in zip(sizes, busiest, strict=True)
    ]


# one sparse layer with 8 ranks, each with its own 5 tokens, on the ledger
rng = np.random.default_rng(5)
placement = lab05.place_in_order(16, 8)
W1, W2 = rng.standard_normal((16, 12, 4)), rng.standard_normal((16, 4, 12))
own = [lab05.route(rng.standard_normal((5, 16)), 2, True) for _ in range(8)]
held = [
    (rng.standard_normal((5, 12)), *own[r], W1[placement == r], W2[placement == r], placement)
    for r in range(8)
]
with record() as by_gather:
    one = run_ranks(lab05.gathered_rank, [(*args, [5] * 8) for args in held])
with record() as by_exchange:
    other = run_ranks(lab05.exchanged_rank, held)
equal = all(np.allclose(a, b) for a, b in zip(one, other, strict=True))
said = lab05.traffic_bytes([ids for ids, _ in own], placement, 12, 8)
counted = [8 * ledger.sent_bytes_per_rank for ledger in (by_gather, by_exchange)]


def seen(name):
    return capture(f"lab-05/captures/{name}/report.json")


names = {"one": "one rank", "tp": "sliced", "ep": "dealt out", "dp": "attention-DP, dealt out"}
runs = {(m, way): seen(f"{m}-{way}") for m in ("deepseek", "mixtral") for way in names}


def tokens_of(way, model):
    ranks = runs[model, way]["ranks"]
    return [a for r in ranks for a in r["tokens"]] if way == "dp" else ranks[0]["tokens"]


def shown(model, way):
    ranks = runs[model, way]["ranks"]
    experts = [next(iter(rank["experts"].values())) for rank in ranks]
    weights = [sum(p["bytes"] for p in rank["parameters"].values()) for rank in ranks]
    cached = [rank["kv_cache"]["tokens_reported"] for rank in ranks]
    where = ", ".join(f"{held[0]}-{held[-1]}" for held in experts)
    in_all = sum(cached) if way == "dp" else cached[0]
    return [model, names[way], where, f"{max(weights):,}", f"{in_all:,}"]


watched = [shown(model, way) for model, way in runs if way != "one"]
cache = {key: run["ranks"][0]["kv_cache"]["tokens_reported"] for key, run in runs.items()}
divided = cache["mixtral", "tp"] == 2 * cache["mixtral", "one"]
copied = cache["deepseek", "tp"] == cache["deepseek", "one"] == cache["deepseek", "dp"]
data_parallel = runs["deepseek", "dp"]["ranks"]
asked = [count for _, count in runs["deepseek", "dp"]["requests"]]
chosen = [np.array(rank["ids"][0]) for rank in data_parallel]
first = data_parallel[0]["steps"][0]
foretold, _ = lab05.traffic_bytes(chosen, lab05.place_in_order(8, 2), 256, 4)


agree = all((order(row)[0] < order(row)[1]) != bool(row["missed"]) for row in given.ROWS)

work, every = [3, 17, 0, 8], 16
steps, dummies = lab05.steps_of_lockstep(work, every)
made = [Counter(ledger.operations) for ledger in (by_gather, by_exchange)]
exchange_rows = [
    ["bytes foretold", *(f"{n:,}" for n in said)],
    ["bytes counted", *(f"{int(n):,}" for n in counted)],
    ["collectives", *(", ".join(f"{n} {name}" for name, n in calls.items()) for calls in made)],
]

# A layer's experts on a real H200 (lab 05's measure_experts.py).
timed = capture("lab-05/captures/h200-r1/measurements.json")
timed_rows, rows_s = [], {}
for row in timed["rows"]:
    floor_s = lab05.experts_s(row["tokens"], 8, 1, timed["model"], timed["machine"])
    took = [row[f"{way}_{part}s"] for way in ("sliced", "dealt") for part in ("products_", "")]
    rows_s[row["tokens"]] = [after - before for before, after in (took[:2], took[2:])]
    if row["tokens"] in (8, 128, 2048, 8192):
        shown_ms = (f"{s * 1e3:.2f}" for s in (floor_s, *took))
        timed_rows.append([f"{row['tokens']:,}", *shown_ms])
sliced_rows_s, dealt_rows_s = rows_s[8192]
rows_decide = 6 < sliced_rows_s / dealt_rows_s < 12 and all(
    5 / 6 < row["dealt_products_s"] / row["sliced_products_s"] < 1
    for row in timed["rows"]
    if row["tokens"] > 1  # one alone saves more, and is not in the table
)

room = e.room(2000, dp)
crosses_early = 50 < cross < 200 < full and shorter > 1.3 and 0.3 < 1 - room / full / 8 < 0.36
most_are_dummies = (steps, sum(dummies)) == (32, 100)
both_ways = agree and missed == ["kaito 2305", "sglang 3602"]

# What the page says, held.
touch_most = 50 < few < 64 and many > 255
eight_rows_cluster = lab05.expected_busiest([1 / 8] * 8, 8) > 2.5
uneven_is_worse = 1.3 < fair < 1.5 and 2.2 < unfair < 2.6
same_answers = all(tokens_of(way, m) == tokens_of("one", m) for m, way in runs)
three_gathers = list(first) == ["all_gatherv", "reduce_scatterv"] and first["all_gatherv"][0] == 3
dummies_foretold = [r["dummy_steps"] for r in data_parallel] == lab05.steps_of_lockstep(asked, 1)[1]
as_foretold = first["all_gatherv"][1] + first["reduce_scatterv"][1] == foretold
