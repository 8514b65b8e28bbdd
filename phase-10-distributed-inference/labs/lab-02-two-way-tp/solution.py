"""Lab 02: watch two ranks split a real model, and read the split back from their logs.

Part A  the ledger of a start-up: weights, KV cache and blocks of each rank, by arithmetic, held
        against what workers and logs report. Plain Python, no engine.
Part B  the same numbers predicted for a live vLLM at tensor_parallel_size=2.
Part C  tensor and sequence parallelism written in Torch (tensor_parallel_toy/).

Shapes are [out, in], as in `y = x @ W.T`. Bytes are bytes, GiB are 2**30 bytes.
The folder given/ holds what you read and do not write.
"""

import math

from arguments import require
from given import reconcile as reconciliation
from given import startup_log
from given.model_shapes import (
    GIB,
    VOCAB_PADDING,
    allocated_bytes,
    model_shape,  # noqa: F401 (whoever imports this file calls it)
    on_stage,
    parameters,
    stage_layers,
)
from given.startup_log import version_numbers

# --- Part A: the ledger of a start-up ---------------------------------------------------------


def padded_vocab(vocab_size):
    """The rows an embedding or output matrix has: the next multiple of VOCAB_PADDING. (Given.)"""
    return -(-vocab_size // VOCAB_PADDING) * VOCAB_PADDING


def kv_heads_per_rank(num_kv_heads, tp_size):
    """KV heads that one rank holds; with more ranks than heads, each is on several. (Given.)

    ValueError when neither number divides the other, since no even split exists then, and when one
    of them is below 1.
    """
    few, many = sorted([num_kv_heads, tp_size])
    require(few >= 1 and many % few == 0, f"{num_kv_heads} KV heads over {tp_size} ranks")
    return max(1, num_kv_heads // tp_size)


def rank_shape(parameter, model, tp_size):
    """The shape one tensor-parallel rank stores, for an entry of `parameters(model)`.

    The split dimension of a matrix [out, in] is `out` for rows and `in` for columns; expert weights
    are [experts, out, in], and every rank holds a slice of every expert. A bias is a vector [out].
    "heads" is the fused [(num_heads + 2 num_kv_heads) head_dim, ...] of q, k and v; head_dim need
    not be hidden_size / num_heads. Returns a new list; the parameter keeps its own.
    ValueError, in words of your own, when tp_size does not divide the dimension that is split, or
    the heads, or is below 1.
    Upstream: vLLM model_executor/layers/linear.py, the classes named ...ParallelLinear.
    """
    # BEGIN SOLUTION (task 1)
    require(tp_size >= 1, f"tp_size={tp_size}: must be 1 or more")
    shape, split = list(parameter["shape"]), parameter["split"]
    if split == "whole":
        return shape
    if split == "heads":
        require(model["num_heads"] % tp_size == 0, f"num_heads={model['num_heads']}: not even")
        kv_heads = kv_heads_per_rank(model["num_kv_heads"], tp_size)
        shape[0] = (model["num_heads"] // tp_size + 2 * kv_heads) * model["head_dim"]
        return shape
    if split == "vocab":
        shape[0] = padded_vocab(shape[0])
    dimension = len(shape) - 1 if split == "columns" else max(0, len(shape) - 2)
    require(shape[dimension] % tp_size == 0, f"{parameter['name']}: {shape} over {tp_size} ranks")
    shape[dimension] //= tp_size
    return shape
    # END SOLUTION


def rank_weights(model, tp_size, pp_size=1, pp_rank=0):
    """The bytes one rank's weights take, term by term.

    Returns a dict of ints: `parameters_bytes`; `rope_table_bytes`, the cos/sin table
    [rope_positions, head_dim] in the weights' type, whole on every rank (0 rows for OPT);
    `allocator_rounding_bytes`, what `allocated_bytes` adds over all these tensors on a GPU;
    `total_bytes`, their sum. A tied embedding is one tensor.
    """
    # BEGIN SOLUTION (task 2)
    tensors = [
        math.prod(rank_shape(parameter, model, tp_size)) * model["dtype_bytes"]
        for parameter in parameters(model)
        if on_stage(parameter, model, pp_size, pp_rank)
    ]
    rope_table = model["rope_positions"] * model["head_dim"] * model["dtype_bytes"]
    charged = sum(map(allocated_bytes, [*tensors, rope_table]))
    return {
        "parameters_bytes": sum(tensors),
        "rope_table_bytes": rope_table,
        "allocator_rounding_bytes": charged - sum(tensors) - rope_table,
        "total_bytes": charged,
    }
    # END SOLUTION


def kv_bytes_per_token(model, tp_size, pp_size=1, pp_rank=0, kv_dtype_bytes=None):
    """Bytes of KV cache that one token takes on one rank: keys and values of the stage's layers.

    kv_dtype_bytes: bytes per element when the cache has a type of its own (fp8: 1); None: the
    weights' type. ValueError, by kv_heads_per_rank, when the KV heads have no even split.
    """
    # BEGIN SOLUTION (task 3)
    layers = stage_layers(model["num_layers"], pp_size)[pp_rank]
    heads = kv_heads_per_rank(model["num_kv_heads"], tp_size)
    return 2 * layers * heads * model["head_dim"] * (kv_dtype_bytes or model["dtype_bytes"])
    # END SOLUTION


def kv_capacity(kv_memory_bytes, bytes_per_token, block_size, max_model_len, version="0.32.0"):
    """What an engine reports for its cache, by the rank with room for the fewest tokens.

    kv_memory_bytes and bytes_per_token: of one rank; the first may be a float, as 7.5 * GIB is.
    block_size, max_model_len: tokens. blocks and tokens are whole numbers all the same.
    Returns {"blocks", "tokens", "max_concurrency"}: int, int, float. A request takes whole blocks,
    none of them shared with another (prefix caching is not counted). By version:
    before 0.9.1        tokens = blocks x block_size, concurrency = tokens / max_model_len;
    0.9.1 to 0.20.0     the same tokens, concurrency = blocks / (whole blocks of one request);
    from 0.20.1         that concurrency, and tokens = int(concurrency x max_model_len).
    version: "major.minor[.patch...]", compared number by number (`version_numbers`). ValueError, in
    words of your own, when a size is not positive; kv_memory_bytes may also be 0.
    """
    # BEGIN SOLUTION (task 4)
    sizes = bytes_per_token, block_size, max_model_len
    require(min(sizes) > 0 and kv_memory_bytes >= 0, f"{kv_memory_bytes} bytes, {sizes}: positive?")
    blocks = int(kv_memory_bytes // (bytes_per_token * block_size))
    tokens = blocks * block_size
    concurrency = tokens / max_model_len
    if version_numbers(version) >= (0, 9, 1):
        concurrency = blocks / math.ceil(max_model_len / block_size)
    if version_numbers(version) >= (0, 20, 1):
        tokens = int(concurrency * max_model_len)
    return {"blocks": blocks, "tokens": tokens, "max_concurrency": concurrency}
    # END SOLUTION


def read_startup_log(text):
    """What a start-up log says, and who says it, as given/startup_log.py describes it. (Given.)"""
    return startup_log.read(text)


def tp_sizes_of_cache(model, kv_memory_bytes, cached_tokens, tp_sizes=(1, 2, 4, 8, 16)):
    """Which tensor-parallel sizes explain the cache that a log reports: the log as a checksum.

    kv_memory_bytes: of one rank ("Available KV cache memory: 8.22 GiB"). cached_tokens: what fits
    in it ("# GPU blocks" x block size, or "GPU KV cache size" before 0.20.1).
    Returns those of `tp_sizes`, in their order, as a list, at which one rank's memory holds that
    many tokens of this model to within 5 % (measured against either number, as you like). Sizes
    over which the heads cannot be split explain nothing. There may be several: what is held more
    than once cannot be told apart.
    """
    # BEGIN SOLUTION (task 5)
    found = []
    for tp_size in tp_sizes:
        if model["num_heads"] % tp_size:
            continue
        try:
            expected = kv_memory_bytes / kv_bytes_per_token(model, tp_size)
        except ValueError:
            continue
        if abs(cached_tokens - expected) <= 0.05 * expected:
            found.append(tp_size)
    return found
    # END SOLUTION


def which_split(model, weights_gib, tp_size, pp_size=1):
    """Which way of splitting explains the weights one rank reports.

    Candidates: the split asked for, pipeline only, tensor parallel only, none at all (tp_size and
    pp_size each as asked, or 1), with every stage of each. The one whose `rank_weights` total comes
    nearest wins, the one asked for when two tie, provided it is within 5 % (measured against either
    number, as you like): splits differ by much more, buffers by less. All of them can be made of
    this model.
    Returns {"tp_size", "pp_size", "pp_rank", "residual_bytes"}, or None. residual_bytes is an int,
    round(reported - expected), with the reported weights_gib in bytes.
    """
    # BEGIN SOLUTION (task 6)
    reported, best = weights_gib * GIB, None
    for tp, pp in dict.fromkeys([(tp_size, pp_size), (1, pp_size), (tp_size, 1), (1, 1)]):
        for stage in range(pp):
            expected = rank_weights(model, tp, pp, stage)["total_bytes"]
            residual = round(reported - expected)
            near = abs(residual) <= 0.05 * expected
            if near and (best is None or abs(residual) < abs(best["residual_bytes"])):
                split = {"tp_size": tp, "pp_size": pp, "pp_rank": stage}
                best = split | {"residual_bytes": residual}
    return best
    # END SOLUTION


def reconcile(log, model, tp_size, pp_size=1, block_size=None):
    """Hold a log against the ledger, as given/reconcile.py describes it. (Given; calls yours.)"""
    ledger = reconciliation.Ledger(rank_weights, kv_bytes_per_token, which_split)
    return reconciliation.reconcile(log, model, tp_size, pp_size, block_size, ledger)


def replicas_or_tp(
    model, gpu_memory_bytes, hbm_bytes_per_s, all_reduce_s,
    context_tokens, num_sequences, slowdowns=(1.0, 1.0),
):  # fmt: skip
    """Two GPUs: two replicas at tp_size=1, or one engine at tp_size=2, for one decode step?

    gpu_memory_bytes: of one GPU, for weights and KV cache. all_reduce_s: one all-reduce of this
    batch. context_tokens: KV length of a sequence. num_sequences: in flight on both GPUs together;
    the replicas share them as evenly as they go, the first GPU taking the odd one. slowdowns: how
    many times slower each GPU reads.
    A GPU's step reads its parameters and its sequences' KV once; the rope table and the allocator's
    rounding are held but not read. A GPU that is slower takes so many times longer to read.
    Ranks of one engine go in lockstep: the slowest sets the step, and 2 all-reduces per layer + 1
    for the embedding come on top. Replicas do not wait for each other.
    Returns {"replicas", "tp", "choice"}; the first two {"fits", "step_s" (the slowest one's, also
    if it does not fit), "tokens_per_s" (0.0 unless it fits)}; choice is "replicas", "tp" or
    "neither": of those that fit the one with more tokens per second, either one if they tie.
    ValueError, in words of your own, when num_sequences is below 2.
    """
    # BEGIN SOLUTION (task 7)
    require(num_sequences >= 2, f"num_sequences={num_sequences}: two GPUs need at least 2")

    def read_and_held(tp_size, sequences):
        """Bytes that one GPU reads per step, and bytes that it must hold."""
        weights = rank_weights(model, tp_size)
        cache = sequences * context_tokens * kv_bytes_per_token(model, tp_size)
        return weights["parameters_bytes"] + cache, weights["total_bytes"] + cache

    def option(fits, step_s, tokens_per_s):
        return {"fits": fits, "step_s": step_s, "tokens_per_s": tokens_per_s if fits else 0.0}

    shares = [math.ceil(num_sequences / 2), num_sequences // 2]
    replicas = [read_and_held(1, share) for share in shares]
    replica_s = [
        read / hbm_bytes_per_s * slow for (read, _), slow in zip(replicas, slowdowns, strict=True)
    ]
    fits = all(held <= gpu_memory_bytes for _, held in replicas)
    tokens_per_s = sum(share / step for share, step in zip(shares, replica_s, strict=True))
    options = {"replicas": option(fits, max(replica_s), tokens_per_s)}
    read, held = read_and_held(2, num_sequences)
    all_reduces = 2 * model["num_layers"] + 1
    step_s = read / hbm_bytes_per_s * max(slowdowns) + all_reduces * all_reduce_s
    options["tp"] = option(held <= gpu_memory_bytes, step_s, num_sequences / step_s)
    best = max(options, key=lambda name: options[name]["tokens_per_s"])
    return options | {"choice": best if options[best]["fits"] else "neither"}
    # END SOLUTION


# --- Part B: the same numbers, live -----------------------------------------------------------


def check_split(model, tp_size):
    """None when vLLM can split this model over `tp_size` ranks; ValueError if not. (Given.)

    The sentence holds attention heads, KV heads (see `kv_heads_per_rank`) and MLP width, those that
    fail and no other, before an engine is started: vLLM itself finds the last two late, in a
    worker, by a bare assert.
    """
    require(tp_size >= 1, f"tp_size={tp_size}: must be 1 or more")
    wrong = [name for name in ("num_heads", "intermediate_size") if model[name] % tp_size]
    few, many = sorted([model["num_kv_heads"], tp_size])
    wrong += ["num_kv_heads"] if many % few else []
    sizes = " and ".join(f"{name}={model[name]}" for name in wrong)
    require(not wrong, f"{sizes} cannot be split evenly over tp_size={tp_size} ranks")


def treatment(full_shape, rank_shapes):
    """What tensor parallelism did to a parameter, from its shape at tp_size=1 and on every rank.

    Shapes are lists: [out] of a vector, [out, in] of a matrix, [experts, out, in] of the weights of
    experts; rank_shapes: one or more. Returns "replicated" (all alike and whole); "rows" (out),
    "columns" (in) or "experts", the one dimension in which the ranks' parts add up to the whole; or
    "rows, part copied" (their rows add up to more: KV heads held twice, padding). Parts need not be
    equal: one may be empty, or larger than the whole.
    ValueError, in words of your own, when no treatment of one dimension gives these shapes.
    """
    # BEGIN SOLUTION (task 8)
    names = ["experts", "rows", "columns"][-len(full_shape) :] if len(full_shape) > 1 else ["rows"]
    changed = [
        (name, sum(parts), size)
        for name, size, *parts in zip(names, full_shape, *rank_shapes, strict=True)
        if set(parts) != {size}
    ]
    if not changed:
        return "replicated"
    require(len(changed) == 1, f"{full_shape} became {rank_shapes}: two dimensions changed")
    name, total, size = changed[0]
    if total > size and name == "rows":
        return "rows, part copied"
    require(total == size, f"{full_shape} became {rank_shapes}: {total} {name} instead of {size}")
    return name
    # END SOLUTION


def collectives_per_step(model, tp_size, num_tokens, num_sequences, element_bytes=4):
    """The collectives of one engine step that runs `num_tokens` tokens of `num_sequences` requests.

    Two all-reduces per layer (lab 01) and one for the vocabulary-parallel embedding, each of one
    activation [num_tokens, hidden] (a narrower embedding's, OPT-350m's, is not asked for); then one
    all-gather of the logits of each sequence's last token, [num_sequences, padded vocabulary].
    Returns {"all_reduces", "all_reduce_bytes", "all_gathers", "all_gather_bytes"}: counts, and
    payload bytes summed over them. A payload is what one call is about (of an all-gather, the
    gathered result), not what a ring sends for it: it does not depend on tp_size. One rank alone
    makes no collective: all zero.
    """
    # BEGIN SOLUTION (task 9)
    if tp_size == 1:
        return dict.fromkeys(
            ("all_reduces", "all_reduce_bytes", "all_gathers", "all_gather_bytes"), 0
        )
    all_reduces = 2 * model["num_layers"] + 1
    return {
        "all_reduces": all_reduces,
        "all_reduce_bytes": all_reduces * num_tokens * model["hidden_size"] * element_bytes,
        "all_gathers": 1,
        "all_gather_bytes": num_sequences * padded_vocab(model["vocab_size"]) * element_bytes,
    }
    # END SOLUTION


# --- Part C: tensor and sequence parallelism in Torch -----------------------------------------
#
# A rank's part in an overlapped layer is a list of operations, issued in this order:
#
#   ["post_recv", tensor, chunk, peer]  a buffer waits for this chunk; returns at once
#   ["send", tensor, chunk, peer]       put this chunk on the wire; returns at once
#   ["wait", tensor, chunk, peer]       block until the posted receive has arrived
#   ["wait_send", tensor, chunk, peer]  block until the chunk has left; its buffer is free again
#   ["gemm", tensor, chunk]             multiply one chunk of rows; `tensor` names the product
#   ["add", tensor, chunk, peer]        add a partial sum that has arrived to one's own
#
# There are num_ranks chunks; rank r owns chunk r. A rank's sends leave one after the other.


def all_gather_gemm_schedule(num_ranks, rank):
    """The operations of `rank` in y = all-gather(x) @ W.T, with the gather behind the GEMMs.

    Each rank starts with its own chunk of "x" and must multiply every chunk ("gemm" of "y") once
    it has it. Every receive is posted before the send it is exchanged for, every send and receive
    is waited for before the function returns. Returns a list of operations as above.
    PyTorch calls this form async-TP. A spoiler: tensor_parallel_toy/schedule.py holds full answers
    to this task and the next.
    """
    # BEGIN SOLUTION (task 10)
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    behind = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "x", peer, peer] for peer in behind]
    schedule += [["send", "x", rank, peer] for peer in ahead]
    schedule.append(["gemm", "y", rank])
    for peer in behind:
        schedule += [["wait", "x", peer, peer], ["gemm", "y", peer]]
    return schedule + [["wait_send", "x", rank, peer] for peer in ahead]
    # END SOLUTION


def gemm_reduce_scatter_schedule(num_ranks, rank):
    """The operations of `rank` in y = reduce-scatter(x @ W.T), with the scatter behind the GEMMs.

    "gemm" of "y" makes a rank's partial sum of one chunk; the owner of a chunk must end with the
    sum over all ranks, each counted once. A partial sum may leave as soon as its GEMM is done.
    Rank 1's of chunk 0 comes to rank 0 by ["post_recv", "y", 0, 1].
    Receives, sends and waits as in all_gather_gemm_schedule. Returns a list of operations.
    """
    # BEGIN SOLUTION (task 11)
    ahead = [(rank + distance) % num_ranks for distance in range(1, num_ranks)]
    behind = [(rank - distance) % num_ranks for distance in range(1, num_ranks)]
    schedule = [["post_recv", "y", rank, peer] for peer in behind]
    for peer in ahead:
        schedule += [["gemm", "y", peer], ["send", "y", peer, peer]]
    schedule.append(["gemm", "y", rank])
    for peer in behind:
        schedule += [["wait", "y", rank, peer], ["add", "y", rank, peer]]
    return schedule + [["wait_send", "y", peer, peer] for peer in ahead]
    # END SOLUTION
