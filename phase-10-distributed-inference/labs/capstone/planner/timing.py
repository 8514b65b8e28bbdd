"""How long a plan computes and waits: one decode step, one prompt, and both under load."""

import math
from dataclasses import dataclass

from planner import labs, memory

ACTIVATION_BYTES = 2  # bf16, whatever the weights are


@dataclass(frozen=True)
class Load:
    """What is asked of the whole cluster. Tokens, sequences; the rest as vLLM's options say."""

    prompt: int = 1000
    output: int = 500
    concurrency: int = 64
    kv_bytes: float = 2
    utilization: float = 0.92  # vllm/config/cache.py, 0.32.0
    batched_tokens: int = 8192
    max_seqs: int = 1024
    max_model_len: int | None = None
    kv_memory: int | None = None  # --kv-cache-memory-bytes: the cache's bytes, whatever is left
    block_size: int = 16


def touched(model, plan, fixed, rank, tokens):
    """Bytes a step of `tokens` tokens reads on one GPU: experts that nobody chose stay unread."""
    if not rank.experts_bytes:
        return rank.always_bytes
    choosing = max(1.0, tokens * plan.copies) ** fixed["expert_skew"]
    return labs.capstone().touched_bytes(
        rank.always_bytes, rank.experts_bytes, model.num_experts, model.top_k, choosing
    )


def all_reduces(rank):
    """All-reduces of a step on one stage: two per layer, and the first stage's embedding."""
    return 2 * len(rank.layers) + (rank.layers.start == 0)


def messages_s(model, plan, fixed, rank, tokens):
    """What the ranks of one stage say to each other in a step of `tokens` tokens (per GPU)."""
    payload = tokens * model.hidden_size * ACTIVATION_BYTES
    if plan.copies == 1:
        return all_reduces(rank) * fixed.all_reduce_s(plan.tp_size, payload)
    sparse = sum(model.experts_in[n] for n in rank.layers)
    if plan.back_end == memory.GATHERED:
        gathered = max(1, round(tokens)) * gathered_payload(model, plan.ep_size)
        return sparse * fixed.gather_scatter_s(plan.ep_size, gathered)
    out, back = labs.bill().expert_parallel_bytes(
        max(1, round(tokens)), model.top_k, model.hidden_size
    )
    both = sum(fixed.all_to_all_s(plan.ep_size, size) for size in (out, back))
    return sparse * both


def gathered_payload(model, ep_size):
    """Bytes that an all-gather or a reduce-scatter is about, when each rank has one token.

    By lab 05: what all ranks send there and back, which of a payload is ep_size - 1 times, twice.
    Without arrays by what comes of it: each token's numbers with its ids or its weights.
    """
    if labs.arrays is None:
        return ep_size * (model.hidden_size + model.top_k) * ACTIVATION_BYTES
    placement = labs.arrays.arange(model.num_experts) * ep_size // model.num_experts
    ids = [labs.arrays.zeros((1, model.top_k), int)] * ep_size
    sent, _ = labs.experts().traffic_bytes(ids, placement, model.hidden_size, ACTIVATION_BYTES)
    return sent / (2 * (ep_size - 1))


def joining_s(model, plan, fixed, rank, tokens):
    """Seconds in which the ranks that share a sequence's tokens ask and answer each other.

    Per layer: all-gather the queries of the heads that they have together, attend, reduce-scatter
    what the heads found (lab 05's join; the sums of exponentials are left out). vLLM: ag_rs.
    """
    if plan.dcp_size == 1:
        return 0.0
    width = model.head_dim
    if model.latent:  # heads meet the latent itself
        width = model.config["kv_lora_rank"] + model.config["qk_rope_head_dim"]
    heads = model.num_heads * plan.dcp_size / plan.tp_size
    payload = tokens * heads * width * ACTIVATION_BYTES
    return len(rank.layers) * fixed.gather_scatter_s(plan.dcp_size, payload)


def lockstep(plan, fixed):
    """Part of a step by which several ranks are slower than one that does its share as well."""
    uneven = fixed["uneven"] if plan.pp_size > 1 else 0.0
    return fixed["lockstep"] * math.log2(plan.tp_size * plan.copies) + uneven


def gaps_s(model, fixed, rank):
    """Seconds between the kernels of one step on one stage."""
    sparse = sum(model.experts_in[n] for n in rank.layers)
    micros = len(rank.layers) * fixed["layer_us"] + sparse * fixed["experts_us"]
    return micros * 1e-6 * fixed.box.scale


def decode_terms(model, plan, fixed, batch, context, load):
    """Seconds of one decode step of `batch` sequences of one replica, term by term, and the sum.

    Pipeline stages work on microbatches in turn; lab 04 says how often one comes round.
    """
    in_flight = max(1, min(plan.pp_size, int(batch)))
    micro = batch / in_flight / plan.copies
    kernels, flops = {}, fixed.flops_per_s(model.quantisation.compute_bits)
    for rank in memory.different_ranks(model, plan):
        layers = model.kv_layers(rank.layers, load.kv_bytes)
        held = memory.sequence_bytes({"layers": layers}, plan, context)
        read = touched(model, plan, fixed, rank, micro)
        compute_s = labs.capstone().decode_compute_s
        roofs = (fixed.memory_bytes_per_s, flops)
        both = compute_s(read, 0, rank.macs, micro, *roofs)
        lower = (
            compute_s(read, 0, 0, micro, *roofs) + compute_s(0, 0, rank.macs, micro, *roofs) - both
        )
        terms = {
            "weights, arithmetic": both + fixed["overlap_lost"] * lower,
            "cache": micro * held / fixed.memory_bytes_per_s,
            "messages": messages_s(model, plan, fixed, rank, micro)
            + joining_s(model, plan, fixed, rank, micro),
            "gaps": gaps_s(model, fixed, rank),
        }
        launching = len(rank.layers) * fixed["launch_us"] * 1e-6 * fixed.box.scale
        slower = lockstep(plan, fixed)
        terms["waits"] = sum(terms.values()) * slower
        terms["launches"] = max(0.0, launching - sum(terms.values()))
        kernels[rank] = terms
    across = plan.tp_size >= fixed.box.gpus_per_node
    hop_s = 0.0
    if plan.pp_size > 1:
        hop_s = fixed.hop_s(micro * model.hidden_size * 2 * ACTIVATION_BYTES, across)
    stages = [kernels[rank] for rank in memory.ranks(model, plan)]
    shares = {name: sum(terms[name] for terms in stages) for name in stages[0]}
    once_s, slowest_s = sum(shares.values()), max(sum(terms.values()) for terms in stages)
    rate = labs.pipeline().decode_steps_per_s(plan.pp_size, in_flight, once_s, hop_s)
    round_s = in_flight * max(slowest_s, 1 / float(rate))  # lab 04's stages are equal
    shares["hops and bubbles"] = round_s - once_s
    host = (fixed["step_us"] + fixed["sequence_us"] * batch) * 1e-6 * fixed.box.scale
    return shares | {"host": host, "total": round_s + host}


def prefill_s(model, plan, fixed, load, together=1):
    """Seconds a stage is busy with one prompt, when `together` prompts share a step's reading."""
    prompt, slowest = load.prompt, 0.0
    flops = fixed.flops_per_s(model.quantisation.compute_bits)
    slower = flops / fixed.attention_flops_per_s()
    for rank in memory.different_ranks(model, plan):
        read = touched(model, plan, fixed, rank, prompt * together) / together
        busy = labs.capstone().prefill_compute_s(
            prompt,
            read,
            rank.macs,
            rank.attention_width * slower,
            fixed.memory_bytes_per_s,
            flops,
        )
        chunk = min(prompt * together, load.batched_tokens)
        busy += messages_s(model, plan, fixed, rank, chunk) * prompt / chunk
        busy += gaps_s(model, fixed, rank) * prompt / chunk
        slowest = max(slowest, busy)
    return slowest * (1 + lockstep(plan, fixed))


def slots(model, plan, fixed, load):
    """Sequences that run at once on one replica: what the tightest GPU's cache holds."""
    found = memory.verdicts(model, plan, fixed, load)
    kept = load.prompt + max(1, round(fixed["reserved_output"] * load.output))
    each = memory.sequence_bytes(found, plan, kept)
    fitting = int(found["kv_bytes"] // each) if found["tokens_fit"] else 0
    return min(load.max_seqs, fitting) * plan.copies


def served(model, plan, fixed, load):
    """What clients see of a plan, or None when not one sequence fits."""
    places = slots(model, plan, fixed, load)
    clients = max(1, -(-load.concurrency // plan.replicas))  # of the fullest replica
    if places < 1:
        return None
    running = min(clients, places)
    context = load.prompt + load.output / 2
    step = decode_terms(model, plan, fixed, running, context, load)
    together = max(1, min(running, load.batched_tokens // load.prompt))
    shared_s = prefill_s(model, plan, fixed, load, together) / plan.copies
    found = labs.capstone().serve(step["total"], shared_s, load.output, clients, places)
    alone_s = prefill_s(model, plan, fixed, load)
    found["ttft_s"] += alone_s * plan.pp_size - shared_s
    others = load.concurrency / (clients * plan.replicas)  # the last replica may have fewer
    found["tokens_per_s"] *= plan.replicas * min(1.0, others)
    return found | {"slots": places * plan.replicas, "terms": step, "prefill_s": alone_s}
