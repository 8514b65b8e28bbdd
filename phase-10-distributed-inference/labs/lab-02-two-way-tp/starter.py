# lab-02 starter: write where NotImplementedError stands. [b3bd76428d51]
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
    raise NotImplementedError(
        "lab-02 · rank_shape is yours to write (about 15 lines). "
        "The book (make book) says more: lab-02, task 1"
    )


def rank_weights(model, tp_size, pp_size=1, pp_rank=0):
    """The bytes one rank's weights take, term by term.

    Returns a dict of ints: `parameters_bytes`; `rope_table_bytes`, the cos/sin table
    [rope_positions, head_dim] in the weights' type, whole on every rank (0 rows for OPT);
    `allocator_rounding_bytes`, what `allocated_bytes` adds over all these tensors on a GPU;
    `total_bytes`, their sum. A tied embedding is one tensor.
    """
    raise NotImplementedError(
        "lab-02 · rank_weights is yours to write (about 13 lines). "
        "The book (make book) says more: lab-02, task 2"
    )


def kv_bytes_per_token(model, tp_size, pp_size=1, pp_rank=0, kv_dtype_bytes=None):
    """Bytes of KV cache that one token takes on one rank: keys and values of the stage's layers.

    kv_dtype_bytes: bytes per element when the cache has a type of its own (fp8: 1); None: the
    weights' type. ValueError, by kv_heads_per_rank, when the KV heads have no even split.
    """
    raise NotImplementedError(
        "lab-02 · kv_bytes_per_token is yours to write (about 3 lines). "
        "The book (make book) says more: lab-02, task 3"
    )


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
    raise NotImplementedError(
        "lab-02 · kv_capacity is yours to write (about 10 lines). "
        "The book (make book) says more: lab-02, task 4"
    )


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
    raise NotImplementedError(
        "lab-02 · tp_sizes_of_cache is yours to write (about 11 lines). "
        "The book (make book) says more: lab-02, task 5"
    )


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
    raise NotImplementedError(
        "lab-02 · which_split is yours to write (about 10 lines). "
        "The book (make book) says more: lab-02, task 6"
    )


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
    raise NotImplementedError(
        "lab-02 · replicas_or_tp is yours to write (about 22 lines). "
        "The book (make book) says more: lab-02, task 7"
    )


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
    raise NotImplementedError(
        "lab-02 · treatment is yours to write (about 14 lines). "
        "The book (make book) says more: lab-02, task 8"
    )


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
    raise NotImplementedError(
        "lab-02 · collectives_per_step is yours to write (about 11 lines). "
        "The book (make book) says more: lab-02, task 9"
    )


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
    raise NotImplementedError(
        "lab-02 · all_gather_gemm_schedule is yours to write (about 8 lines). "
        "The book (make book) says more: lab-02, task 10"
    )


def gemm_reduce_scatter_schedule(num_ranks, rank):
    """The operations of `rank` in y = reduce-scatter(x @ W.T), with the scatter behind the GEMMs.

    "gemm" of "y" makes a rank's partial sum of one chunk; the owner of a chunk must end with the
    sum over all ranks, each counted once. A partial sum may leave as soon as its GEMM is done.
    Rank 1's of chunk 0 comes to rank 0 by ["post_recv", "y", 0, 1].
    Receives, sends and waits as in all_gather_gemm_schedule. Returns a list of operations.
    """
    raise NotImplementedError(
        "lab-02 · gemm_reduce_scatter_schedule is yours to write (about 9 lines). "
        "The book (make book) says more: lab-02, task 11"
    )
