"""The labs' formulas as a floor under the planner: reading, cache, messages and boundaries.

Labs 02 to 04 price these four and nothing else. Asked with the best constants of a box they are a
lower bound of what the planner says of its best box; tests/test_floor.py holds that on a thousand
drawn cases, for which the rings here are its own and not the planner's. What the planner adds
(gaps, waits, the host, other people's prompts) is not divided by any split, so the floor is the
part of a step that a split changes.
"""

import math

from planner import hardware, labs, memory, plans, timing


def terms(model, plan, box, batch, context, kv_bytes=2):
    """{"reading", "cache", "messages", "boundaries", "total"}: least seconds of a decode step.

    batch: sequences of one replica; context: tokens that each has behind it. "reading" is the
    higher of two roofs, so arithmetic above the ridge. "total" sums the four.
    """
    fixed = box.at(hardware.BEST)
    speed, flops = fixed.memory_bytes_per_s, fixed.flops_per_s(model.quantisation.compute_bits)
    micro = batch / max(1, min(plan.pp_size, int(batch))) / plan.copies
    weights, used = _weights(model, plan)
    roofs = (speed, max(1, int(micro)), flops, weights / used)
    layers = model.kv_layers(range(model.num_layers), kv_bytes)
    held = memory.sequence_bytes({"layers": layers}, plan, context)
    link = box.network if plan.tp_size >= box.gpus_per_node else box.link
    crossing = micro * model.hidden_size * timing.ACTIVATION_BYTES
    found = {
        "reading": labs.bill().step_s(weights, 1, *roofs),
        "cache": micro * held / speed,
        "messages": _messages_s(model, plan, box, micro),
        "boundaries": (plan.pp_size - 1) * crossing / _best(link)[2],
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


def _messages_s(model, plan, box, tokens):
    bill, payload = labs.bill(), timing.ACTIVATION_BYTES * tokens * model.hidden_size
    if plan.copies > 1 and plan.back_end == memory.GATHERED:  # one ring, there and back
        size = max(1, int(tokens)) * timing.gathered_payload(model, plan.ep_size)
        return sum(model.experts_in) * _ring_s(box, plan.ep_size, size)
    if plan.copies > 1:  # DeepEP's bytes, there and back; only the wire
        found = bill.expert_parallel_bytes(max(1, int(tokens)), model.top_k, model.hidden_size)
        wire, away = _best(box.link), 1.0
        if plan.ep_size > box.gpus_per_node:
            wire, away = _best(box.network), (plan.ep_size - box.gpus_per_node) / (plan.ep_size - 1)
        return sum(model.experts_in) * sum(
            bill.all_to_all_s(plan.ep_size, n * away, *wire) for n in found
        )
    if plan.tp_size == 1:
        return 0.0
    count, _ = bill.step_messages(model.num_layers, 1, model.hidden_size, 2)
    inside, ranks = _best(box.link), plan.tp_size
    if ranks <= box.gpus_per_node:
        kernel = box.link["kernel_us"]
        ways = [_ring_s(box, ranks, payload)]
        if kernel:
            ways.append(bill.one_shot_all_reduce_s(ranks, payload, min(kernel) * 1e-6, inside[2]))
            ways.append(bill.two_shot_all_reduce_s(ranks, payload, min(kernel) * 1e-6, inside[2]))
        return count * min(ways)
    return count * _ring_s(box, ranks, payload)


def _ring_s(box, ranks, payload_bytes):
    """A ring within a node, or one over the nodes of one in each."""
    bill, inside = labs.bill(), _best(box.link)
    if ranks <= box.gpus_per_node:
        return bill.ring_all_reduce_s(ranks, payload_bytes, *inside)
    if box.gpus_per_node == 1:
        return bill.ring_all_reduce_s(ranks, payload_bytes, *_best(box.network))
    shape = (ranks // box.gpus_per_node, box.gpus_per_node, payload_bytes)
    c_s, a_s, busbw = _best(box.network)
    return bill.hierarchical_all_reduce_s(*shape, min(c_s, inside[0]), *inside[1:], a_s, busbw)


def _best(link):
    """(c, a, busbw) of a link, the best of each: SI units."""
    speeds = [speed for row in link["busbw_gb_per_s"].values() for speed in _ends(row)]
    return min(_ends(link["c_us"])) * 1e-6, min(_ends(link["a_us"])) * 1e-6, max(speeds) * 1e9


def _ends(value):
    return value if isinstance(value, list) else [value]


def beside(model, plan, box, load):
    """{"floor", "typical", "best", "worst", "terms"} of one decode step under a load, in seconds.

    With the clients of the fullest replica all running, halfway through their answers; "terms" are
    the planner's, typical, without prompts. None where the batch does not fit.
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
