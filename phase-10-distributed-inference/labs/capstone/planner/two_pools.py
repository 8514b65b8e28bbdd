"""A plan's replicas in two pools, one to prefill and one to decode, by the learner's functions."""

from planner import hardware, labs, memory, timing
from planner.report import seconds_text

MANY = 64  # sequences: a batch far from 1, for the slope of a step


def compared(model, box, load, candidate):
    """What pools_or_one and transfer_s say of this plan's engines, with what they were given.

    The rate of requests is what the load's clients make against one pool.
    """
    plan, fixed = candidate.plan, box.at(hardware.TYPICAL)
    engines = box.nodes * box.gpus_per_node // plan.gpus_per_replica
    context = load.prompt + load.output / 2
    alone, many = (
        timing.decode_terms(model, plan, fixed, batch, context, load)["total"]
        for batch in (1, MANY)
    )
    sequence_s = (many - alone) / (MANY - 1)
    ttft_s, tpot_s = (candidate.times[name][1] for name in ("ttft_s", "tpot_s"))
    rate = load.concurrency / (ttft_s + load.output * tpot_s)
    kv_bytes = memory.sequence_bytes(candidate.memory, plan, load.prompt)
    _, hop_s, busbw = fixed.line(box.network, 2)
    given = (kv_bytes, busbw, hop_s, model.num_layers, candidate.prefill_s)
    hidden_s, at_end_s = (labs.capstone().transfer_s(*given, way) for way in (True, False))
    work = (candidate.prefill_s, load.output, alone - sequence_s, sequence_s, hidden_s)
    found = labs.capstone().pools_or_one(rate, engines, *work)
    try:  # each engine of one pool has its share of the requests, and takes in prompts and answers
        together = labs.capstone().pools_or_one(rate / engines, 1, *work)
    except ValueError:
        together = None
    return found | {
        "together": together,
        "engines": engines,
        "requests_per_s": rate,
        "prompts": rate * candidate.prefill_s / engines,
        "kv_bytes": kv_bytes,
        "behind_s": hidden_s,
        "at_end_s": at_end_s,
    }


def lines(model, box, load, candidate):
    found = compared(model, box, load, candidate)
    name, first = candidate.name.split(" x ")[-1], found["first_pool"]
    yield (
        f"\nOne pool or two, of {found['engines']} engines of {name}? "
        f"{found['requests_per_s']:.3g} requests/s, spread evenly; prompts take "
        f"{found['prompts']:.0%} of the time."
    )
    yield (
        f"  A prompt's cache is {found['kv_bytes'] / 1e6:,.0f} MB a rank: "
        f"{seconds_text(found['behind_s'])} behind the prefill, layer by layer; "
        f"{seconds_text(found['at_end_s'])} at its end."
    )
    one = _times(found["together"]) if found["together"] else "its engines cannot answer so many"
    yield f"  One pool: {one}."
    if first:
        yield f"  Two: {first} to prefill, {found['engines'] - first} to decode: {_times(found)}."
    else:
        yield "  Two would not be 5% faster a token."


def _times(found):
    return f"{seconds_text(found['tpot_s'])} a token, first token {seconds_text(found['ttft_s'])}"
