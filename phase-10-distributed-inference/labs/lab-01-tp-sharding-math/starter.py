# lab-01 starter: write where NotImplementedError stands. [fa7a1f8c805f]
"""Lab 01: tensor parallelism as algebra you can prove.

Ranks are simulated by slicing: rank r owns slice r, and the only way from one rank to another is a
collective. `collectives` has them; each takes a list with one array per rank and returns such a
list. All arrays are float64.

Shapes: x is [tokens, in] or [batch, tokens, in]. A linear layer is y = x @ W.T with W [out, in],
the layout of torch.nn.Linear and of every checkpoint. The MLP alone uses the paper's layout,
relu(x @ W1) @ W2 with W1 [in, hidden] and W2 [hidden, out] (Megatron-LM, arXiv:1909.08053, sec. 3).
"""

import numpy as np
from collectives import all_gather, all_reduce, reduce_scatter


def shard_size(dimension, size, num_ranks):
    """Return how many entries of a dimension each rank owns: size / num_ranks, exactly.

    dimension is the name to show, such as "out_features". Raises ValueError when num_ranks is
    below 1, or does not divide size; the message names the dimension, its size and the ranks.
    Source: vllm/distributed/utils.py `divide`.
    """
    raise NotImplementedError(
        "lab-01 · shard_size is yours to write (about 5 lines). "
        "Chapter: README.md, task 1"
    )


def column_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the output dimension of W [out, in] split over the ranks.

    Each rank multiplies the whole x by its block of outputs; one all-gather joins the blocks.
    Raises ValueError when num_ranks does not divide out. Source: Megatron-LM sec. 3; vLLM
    `ColumnParallelLinear(gather_output=True)`.
    """
    raise NotImplementedError(
        "lab-01 · column_parallel is yours to write (about 3 lines). "
        "Chapter: README.md, task 2"
    )


def row_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the input dimension of W [out, in] split over the ranks.

    Each rank multiplies its slice of x by its slice of W, which gives a partial sum over the whole
    output; one all-reduce adds them up. Raises ValueError when num_ranks does not divide in.
    Source: Megatron-LM sec. 3; vLLM `RowParallelLinear`.
    """
    raise NotImplementedError(
        "lab-01 · row_parallel is yours to write (about 4 lines). "
        "Chapter: README.md, task 3"
    )


def mlp_tp(x, W1, W2, num_ranks):
    """Return relu(x @ W1) @ W2, [..., out], with exactly one all-reduce and nothing else.

    W1 [in, hidden] is split by columns and its output stays sharded; relu works on each shard;
    W2 [hidden, out] is split by rows, so each rank already holds the inputs it needs. Raises
    ValueError when num_ranks does not divide hidden. Source: Megatron-LM sec. 3, figure 3a.
    """
    raise NotImplementedError(
        "lab-01 · mlp_tp is yours to write (about 5 lines). "
        "Chapter: README.md, task 4"
    )


def legal_tp_sizes(num_heads, num_kv_heads, widths, max_tp_size=64):
    """Return a list of the tensor-parallel sizes, ascending, that a model's shape allows.

    A size must divide num_heads and every entry of widths (such as the MLP's hidden size), and it
    must divide num_kv_heads or be a multiple of it (then each KV head is replicated). Raises
    ValueError, naming the argument, when num_heads, num_kv_heads, an entry of widths or max_tp_size
    is below 1. Source: vLLM `QKVParallelLinear`.
    """
    raise NotImplementedError(
        "lab-01 · legal_tp_sizes is yours to write (about 9 lines). "
        "Chapter: README.md, task 5"
    )


def causal_attention(q, k, v):
    """Return the attention output [tokens, heads * head_dim] of some heads; given, not a task.

    q is [tokens, heads, head_dim]; k and v are [tokens, kv_heads, head_dim]. Query head i reads KV
    head i // (heads / kv_heads) (grouped-query attention, arXiv:2305.13245).
    """
    tokens, heads, head_dim = q.shape
    group = heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.swapaxes(q, 0, 1) @ np.transpose(k, (1, 2, 0)) / np.sqrt(head_dim)
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    out = weights @ np.swapaxes(v, 0, 1)  # [heads, tokens, head_dim]
    return np.swapaxes(out, 0, 1).reshape(tokens, heads * head_dim)


def attention_tp(x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks):
    """Return the attention block's output [tokens, out], heads split over ranks, one all-reduce.

    x is [tokens, in]; Wq [num_heads * head_dim, in]; Wk and Wv [num_kv_heads * head_dim, in];
    Wo [out, num_heads * head_dim]. A rank owns num_heads / num_ranks query heads and the KV heads
    they read; when num_ranks > num_kv_heads, several ranks hold a copy of the same KV head. Raises
    ValueError when the heads do not divide. Source: Megatron-LM sec. 3, figure 3b; vLLM
    `QKVParallelLinear` (`num_kv_head_replicas`).
    """
    raise NotImplementedError(
        "lab-01 · attention_tp is yours to write (about 22 lines). "
        "Chapter: README.md, task 6"
    )


def vocab_parallel_embedding(token_ids, E, num_ranks):
    """Return E[token_ids], [tokens, hidden], with the rows of E [vocab, hidden] split over ranks.

    token_ids is an integer array [tokens]. A rank looks up the tokens it owns and gives zeros for
    the others; one all-reduce adds the ranks up. Raises ValueError when num_ranks does not divide
    vocab. Source: Megatron-LM sec. 3; vLLM `VocabParallelEmbedding`, `get_masked_input_and_mask`.
    """
    raise NotImplementedError(
        "lab-01 · vocab_parallel_embedding is yours to write (about 8 lines). "
        "Chapter: README.md, task 7"
    )


def mlp_tp_sequence_parallel(x, W1, W2, num_ranks):
    """Return relu(x @ W1) @ W2, [tokens, out], tokens split over ranks outside the MLP.

    Rank r holds block r of x [tokens, in] and ends with block r of the result; the blocks are
    joined for the caller without a collective. Inside, one all-gather brings the tokens together
    and one reduce-scatter both sums and splits: the bytes of one all-reduce. Raises ValueError when
    num_ranks does not divide tokens or hidden. Source: arXiv:2205.05198, sec. 4.2.2.
    """
    raise NotImplementedError(
        "lab-01 · mlp_tp_sequence_parallel is yours to write (about 10 lines). "
        "Chapter: README.md, task 8"
    )
