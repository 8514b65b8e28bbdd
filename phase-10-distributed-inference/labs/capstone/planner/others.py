"""Rules that others place models by, on the same facts: who is right, who refuses, who guesses.

A rule answers "does it fit" and, where it can, "the longest context"; weights and cache are counted
as here, so only what a rule says about the rest is compared.
"""

from planner import facts, memory
from planner.memory import Plan

GIB = 2**30


def vram_calculator(model, plan, box, context):
    """1.2 times the weights over all GPUs; the context does not enter (vLLM recipes' rule of thumb,
    and most calculators on the web)."""
    weights = sum(rank.held_bytes for rank in memory.ranks(model, Plan()))
    return 1.2 * weights <= box.reported_bytes * plan.num_gpus


def flat_overhead(model, plan, box, context):
    """2.3 GiB and 5 % of the weights on every GPU besides weights and cache (KAITO's estimator)."""
    return _room(model, plan, box, context) >= 2.3 * GIB + 0.05 * _weights(model, plan)


def no_overhead(model, plan, box, context):
    """Weights and cache are all there is, in all of the memory."""
    return _room(model, plan, box, context, part=1.0) >= 0


def _weights(model, plan):
    return max(rank.held_bytes for rank in memory.ranks(model, plan))


def _room(model, plan, box, context, part=0.9):
    layers = model.kv_layers(range(model.num_layers), 2)
    cache = facts.labs.capstone().sequence_kv_bytes(layers, context, plan.tp_size)
    return part * box.reported_bytes - _weights(model, plan) - cache


RULES = {
    "1.2 x weights": vram_calculator,
    "2.3 GiB + 5 % of the weights a GPU": flat_overhead,
    "weights and cache alone": no_overhead,
}
STEPS = (2, 4, 8, 16, 32, 64, 128)  # Ki tokens, as the source tried


def compare(rows):
    """{rule: {"fits": [right, rows], "longest context": [right, rows]}} over max_context rows."""
    found = {name: {"fits": [0, 0], "longest context": [0, 0]} for name in RULES}
    for row in rows:
        if row["kind"] != "max_context":
            continue
        if facts.judge(row).left_out:
            continue
        setting, measured = row["setting"], row["value"]
        model, box = facts.model_named(setting), facts.box_named(setting)
        plan = Plan(1, setting.get("tp", 1))
        for name, rule in RULES.items():
            longest = 0
            for kib in STEPS:
                tokens = kib * 1024
                if tokens > model.max_positions or not rule(model, plan, box, tokens):
                    break
                longest = kib
            for what, right in [("fits", (longest > 0) == (measured > 0)),
                                ("longest context", longest == measured)]:  # fmt: skip
                found[name][what][0] += right
                found[name][what][1] += 1
    return found
