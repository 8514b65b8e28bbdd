"""The labs' formulas as a floor under the planner: reading, cache, messages and boundaries.

Labs 02 to 04 price these four and nothing else. Asked with the best constants of a box they are a
lower bound of what the planner says of its best box; tests/test_floor.py holds that on a thousand
drawn cases. What the planner adds (gaps, waits, the host, other people's prompts) is not divided by
any split, so the floor is the part of a step that a split changes.
"""

import math
from dataclasses import replace

from planner import hardware, labs, memory, plans, timing


def terms(model, plan, box, batch, context, kv_bytes=2):
    """{"reading", "cache", "messages", "boundaries", "total"}: least seconds of a decode step.

    batch: sequences of one replica; context: tokens that each has behind it. "reading" is the
    higher of two roofs, so arithmetic above the ridge. "total" sums the four.
    """
    fixed = _at_its_best(box)
    speed, flops = fixed.memory_bytes_per_s, fixed.flops_per_s(model.quantisation.compute_bits)
    micro = batch / max(1, min(plan.pp_size, int(batch))) / plan.copies
    weights, used = _weights(model, plan)
    roofs = (speed, max(1, int(micro)), flops, weights / used)
    layers = model.kv_layers(range(model.num_layers), kv_bytes)
    held = memory.sequence_bytes({"layers": layers}, plan, context)
    link = fixed.box.network if plan.tp_size >= box.gpus_per_node else fixed.box.link
    crossing = micro * model.hidden_size * timing.ACTIVATION_BYTES
    found = {
        "reading": labs.bill().step_s(weights, 1, *roofs),
        "cache": micro * held / speed,
        "messages": _messages_s(model, plan, fixed, micro),
        "boundaries": (plan.pp_size - 1) * crossing / fixed.line(link, 2)[2],
    }
    return found | {"total": sum(found.values())}


def _weights(model, plan):
    """(bytes that one rank reads at least, of how many weights), all stages together.

    Of the experts those of one token; the input embedding is not read, unless it is the output too.
    """
    size = used = 0.0
    for entry in [*model.outside, *(entry for layer in model.layers for entry in layer)]:
        if "embed_tokens" in entry["name"] and not model.tied:
            continue
        expert = ".experts." in entry["name"]
        part = model.top_k / model.num_experts / max(plan.ep_size, plan.tp_size) if expert else 0
        elements = math.prod(entry["shape"]) * (part or 1 / plan.tp_size)
        size += elements * model.quantisation.bytes_of(entry, model.dtype_bytes)
        used += elements
    return size, used


def _messages_s(model, plan, fixed, tokens):
    """Least seconds of a step's messages; fixed: the box at its best."""
    if plan.copies == 1:
        count, _ = labs.bill().step_messages(model.num_layers, 1, model.hidden_size, 2)
        payload = timing.ACTIVATION_BYTES * tokens * model.hidden_size
        return count * fixed.all_reduce_s(plan.tp_size, payload)
    sparse, tokens = sum(model.experts_in), max(1, int(tokens))
    if plan.back_end == memory.GATHERED:  # one ring, there and back
        size = tokens * timing.gathered_payload(model, plan.ep_size)
        return sparse * fixed.ring_s(plan.ep_size, size)
    there_and_back = labs.bill().expert_parallel_bytes(tokens, model.top_k, model.hidden_size)
    return sparse * sum(fixed.all_to_all_s(plan.ep_size, size) for size in there_and_back)


def _at_its_best(box):
    """The box with the best of each constant; a link with its best bandwidth for all ranks."""

    def best(link):
        now = hardware.between(link, hardware.BEST)
        return now | {"busbw_gb_per_s": {"2": max(now["busbw_gb_per_s"].values())}}

    return replace(box, link=best(box.link), network=best(box.network)).at(hardware.BEST)


def beside(model, plan, box, load):
    """{"floor", "typical", "best", "worst", "terms"} of one decode step under a load, in seconds.

    With the clients of the fullest replica all running, halfway through their answers; "terms" are
    the planner's, typical, without prompts.
    """
    clients = -(-load.concurrency // plan.replicas)
    context = load.prompt + load.output / 2
    found = [
        timing.decode_terms(model, plan, box.at(mood), clients, context, load)
        for mood in plans.MOODS
    ]
    least = terms(model, plan, box, clients, context, load.kv_bytes)
    best, typical, worst = (one["total"] for one in found)
    return {
        "floor": least, "typical": typical, "best": best, "worst": worst, "terms": found[1]
    }  # fmt: skip
