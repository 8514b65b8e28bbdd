"""DeepSeek-V3 on two nodes: each sum by pencil, beside the planner's."""

import dataclasses
import re

import figures
from labbook.labs import solution
from labbook.markdown import table
from planner import hardware, memory, models, plans, timing
from planner.timing import Load

lab03 = solution("lab-03")
load = Load(2000, 500, 64)

agreed = []


def by_hand(*steps):
    """A table of sums. A step: what, the sum, its unit, the planner's number, with which it agrees.

    None for the planner's where it has no such number of its own.
    """
    units = {"GB": 1e9, "·10⁹": 1e9, "kB": 1e3, "ms": 1e-3, "µs": 1e-6, "s": 1, "": 1}
    rows = []
    for what, formula, unit, planned in steps:
        hand = eval(formula)
        if planned is not None:
            agreed.append(abs(hand / planned - 1) < 0.01)
        rows.append([what, pencil(formula), amount(hand / units[unit], unit)])
    return table(["step", "the sum", "it comes to"], rows, "llr")


def pencil(formula):
    for code, sign in [("**2", "²"), ("**", "^"), ("*", "×"), ("_", ",")]:
        formula = formula.replace(code, sign)
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return re.sub(r"(?<=\d)e(-?\d+)", lambda power: "·10" + power[1].translate(raised), formula)


def amount(number, unit):
    return (f"{number:,.0f}" if number >= 1e4 else f"{number:,.4g}") + f" {unit}" * bool(unit)


def gb(size):
    return f"{size / 1e9:.5g}e9"


def worked(name, plan, cluster, load):
    """(model, candidate, its fullest rank, the box's typical constants)."""
    m = models.read(name)
    c = plans.evaluate(m, cluster, plan, load)
    return m, c, c.memory["rank"], cluster.at(hardware.TYPICAL)


speed = "(0.85 * 3.35e12)"
MIB = 81_559
budget = f"{load.utilization} * {MIB:_} * 1_048_576"


def limits(c, widest, vocabulary):
    """The budget, what is neither weights nor cache, and what is left."""
    other = sum(c.memory["other"].values())
    fixed = "0.5e9 + 0.7e9" + " + 0.3e9" * (c.plan.gpus_per_replica > 1)
    return [
        (
            "the engine may use",
            budget,
            "GB",
            c.memory["weights_bytes"] + other + c.memory["kv_bytes"],
        ),
        (
            "activations of 8,192 tokens (2 bytes each): three states, and the hidden units and "
            "outputs of eight experts; logits of 1,024 sequences (2 bytes, 4 for "
            "the float32 copy, 4 for the sampler), graphs, libraries, NCCL's buffers",
            f"8_192 * ({widest}) * 2 + 1_024 * {vocabulary:_} * 10 + {fixed}",
            "GB",
            other,
        ),
        (
            "left for the cache",
            f"({budget}) - {gb(c.memory['weights_bytes'])} - {gb(other)}",
            "GB",
            c.memory["kv_bytes"],
        ),
    ]


two_nodes, many = hardware.box("h100", 2), Load(2000, 500, 256)
spread = memory.Plan(ep_size=16, back_end=memory.DEEPEP)
m, c, rank, t = worked("deepseek-v3", spread, two_nodes, many)
node = plans.evaluate(m, two_nodes, memory.Plan(2, 8), many).memory["rank"]
cut = plans.evaluate(m, two_nodes, memory.Plan(1, 8, 2), many)
half = cut.memory
rates = {}
for clients in (64, 256):
    asked = dataclasses.replace(many, concurrency=clients)
    for way in (memory.Plan(ep_size=16), spread, memory.Plan(1, 8, 2)):
        found = plans.evaluate(m, two_nodes, way, asked)
        rates.setdefault(found.name, []).append(found.times["tokens_per_s"][1])
gathering = plans.evaluate(m, two_nodes, memory.Plan(ep_size=16), many)
sparse, H, E = 58, m.hidden_size, m.expert_ffn
experts = f"{sparse} * 256 * 3 * {H:_} * {E:_} * (1 + 4 / 128**2)"
chosen = 256 ** t["expert_skew"]
part_read = 1 - (1 - 8 / 256) ** chosen
touched = rank.always_bytes + rank.experts_bytes * part_read
out, back = lab03.expert_parallel_bytes(16, 8, H)
latent = c.memory["kv_bytes"] / memory.sequence_bytes(c.memory, c.plan, 1)
network = t.line(two_nodes.network, 8)
payload = 16 * timing.gathered_payload(m, 16)  # of the gather and of the scatter
into = 15 / 16 * payload  # what arrives at a rank
cards = {"gathered": 2 * into / 8, "DeepEP": 8 / 16 * (out + back)}  # bytes a card sends, a layer
attention = (
    f"61 * (1_536 * {H:_} + 128 * 192 * 1_536 + 576 * {H:_} + 128 * 256 * 512 + {H:_} * 128 * 128)"
)
dense, shared = f"3 * 3 * {H:_} * 18_432", f"58 * 3 * {H:_} * {E:_}"
tables = f"2 * {H:_} * (58 * 256 + 2 * 129_280)"
parts = [eval(part) for part in (attention, dense, shared, tables)]
outside = rank.held_bytes - rank.experts_bytes
in_memory = by_hand(
    ("experts of a rank, TP8 in one node", f"{experts} / 8", "GB", node.experts_bytes),
    ("experts of a rank, over 16", f"{experts} / 16", "GB", rank.experts_bytes),
    (
        "attention of 61 layers: queries (down to 1,536, up to 128 × 192), the latent (576), keys "
        "and values (up to 256 a head), out",
        attention,
        "GB",
        None,
    ),
    ("3 dense layers: gate, up, down", dense, "GB", None),
    ("58 shared experts", shared, "GB", None),
    ("58 routers, the input embedding and the output matrix, 2 bytes each", tables, "GB", None),
    (
        "these four, whole on every rank, with their scales and norms",
        " + ".join(map(gb, [*parts, outside - sum(parts)])),
        "GB",
        outside,
    ),
    (
        "of these a step reads all but the input embedding",
        f"{gb(outside)} - 2 * {H:_} * 129_280",
        "GB",
        rank.always_bytes,
    ),
    *limits(c, f"3 * {H:_} + 8 * (3 * {E:_} + {H:_})", 129_280),
    (
        "cache of a token, on any rank",
        f"{m.num_layers} * (512 + 64) * 2",
        "kB",
        memory.sequence_bytes(c.memory, c.plan, 1),
    ),
    ("tokens a rank keeps", f"{gb(c.memory['kv_bytes'])} / 70_272", "", latent),
)
a_step = by_hand(
    (
        "weights that a token passes through: the four, without the input embedding, and 8 "
        "experts in 58 layers",
        f"{gb(eval(attention))} + {gb(eval(dense))} + {gb(eval(shared))}"
        f" + {H:_} * (58 * 256 + 129_280) + 58 * 8 * 3 * {H:_} * {E:_}",
        "·10⁹",
        rank.macs,
    ),
    (
        "part of its experts read by 256 tokens, which count as 256^0.85 (`expert_skew`)",
        "1 - (1 - 8 / 256) ** (256**0.85)",
        "",
        part_read,
    ),
    (
        "a step reads",
        f"{gb(rank.always_bytes)} + {gb(rank.experts_bytes)} * {part_read:.4g}",
        "GB",
        timing.touched(m, c.plan, t, rank, 16),
    ),
    (
        "in the time: reading at 85% of 3.35 TB/s, and half of 16 tokens' arithmetic "
        "(256 / 16), at 64% of 1,979 TFLOP/s",
        f"{gb(touched)} / {speed} + 0.5 * 2 * {gb(rank.macs)} * 16 / (0.64 * 1979e12)",
        "ms",
        c.terms["weights, arithmetic"],
    ),
)
messages = by_hand(
    ("16 tokens to 8 experts each", f"16 * 8 * {H:_} * (1 + 4 / 128)", "kB", out),
    ("and home", f"16 * 8 * {H:_} * 2", "kB", back),
    (
        "58 trips there and back, to 8 ranks of 16 over 400 GbE, typically "
        f"{network[0] * 1e6:.3g} µs a call, {network[1] * 1e6:.3g} µs a hop and "
        f"{network[2] / 1e9:.3g} GB/s",
        f"58 * (2 * {network[0] * 1e6:.3g}e-6 + 2 * {network[1] * 1e6:.3g}e-6"
        f" + 8 / 16 * ({round(out):_} + {round(back):_}) / {gb(network[2])})",
        "ms",
        c.terms["messages"],
    ),
)

gather_s, deep_s = gathering.terms["messages"], c.terms["messages"]
named = {
    f"gaps (61 × {t['layer_us']:.0f} + 58 × {t['experts_us']:.0f} µs)": ["gaps", "launches"],
    f"waits ({t['lockstep']:.0%} of all these for each of four doublings)": ["waits"],
    "the host": ["host"],
}
rest_ms = {name: 1e3 * sum(c.terms[term] for term in terms) for name, terms in named.items()}
step_ms, token_ms = 1e3 * c.terms["total"], 1e3 * c.times["tpot_s"][1]
apart_ms = abs(gathering.times["tpot_s"][1] * 1e3 - token_ms)
closing = (
    f"A step takes {c.terms['weights, arithmetic'] * 1e3:.2f} ms for weights and arithmetic, "
    f"{c.terms['cache'] * 1e3:.2f} for the cache and {c.terms['messages'] * 1e3:.2f} for messages; "
    + ", ".join(f"{name} {ms:.2f}" for name, ms in rest_ms.items())
    + f": {step_ms:.2f} ms. With the others' prompts a token takes {token_ms:.1f}, which makes "
    f"{rates['EP16 DeepEP'][1]:,.0f} tokens a second for 256 clients. The two ways differ in "
    f"their messages alone, {deep_s / c.terms['total']:.0%} of the step, where one receives less "
    f"and the other sends less: in all by {apart_ms:.1f} ms."
)

# What the page says, held: each name stands in one of its checks.
tie, pipeline = figures.times.tie, rates["TP8 x PP2"]
ways_tie = all(tie(*pair) for pair in zip(rates["EP16"], rates["EP16 DeepEP"], strict=True))
pipeline_ties_once = tie(rates["EP16"][0], pipeline[0]) and rates["EP16"][1] > 1.2 * pipeline[1]
cache_ms = [found.terms["cache"] * 1e3 for found in (c, cut)]
messages_tie = abs(gather_s / deep_s - 1) < 0.1
pipeline_token = memory.sequence_bytes(half, memory.Plan(1, 8, 2), 1)
more_tokens = 16 * latent * pipeline_token / half["kv_bytes"]
rate_rows = [
    [{"EP16": "EP16, vLLM's default"}.get(name, name), *(f"{n:,.0f}" for n in found)]
    for name, found in rates.items()
]
rate_table = table(["tokens/s", "64 clients", "256 clients"], rate_rows, "lrr")
one_node_is_out = node.experts_bytes > load.utilization * MIB * 2**20
