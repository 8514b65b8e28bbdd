# lab-01 starter: write where NotImplementedError stands. [8b993d63b242]
"""Lab 01: tensor parallelism as algebra you can prove.

Tasks 1 to 5 see all ranks at once: rank r owns block r, and the only way from one rank to another
is a collective, which takes a list with one array per rank and returns such a list. Tasks 6 to 8
are written as one rank runs them, as in a real engine: `..._shards` loads what the rank owns,
`..._rank` computes with it and calls the collectives of its `group`. All arrays are float64.

Shapes: x is [tokens, in] or [batch, tokens, in]; there is one token at least. A linear layer is
y = x @ W.T with W [out, in], the layout of torch.nn.Linear and of every checkpoint. The MLP alone
uses the paper's layout, relu(x @ W1) @ W2 with W1 [in, hidden] and W2 [hidden, out] (Megatron-LM,
arXiv:1909.08053, sec. 3).
"""

import numpy as np
from collectives import all_gather, all_reduce


def shards(dimension, size, num_ranks):
    """Return a list with one slice per rank: equal blocks of a dimension, in rank order.

    dimension is the name to show, such as "out_features"; size, an int, is 1 or more. Raises
    ValueError when num_ranks is below 1 or does not divide size; the message holds the dimension's
    name, its size and num_ranks. Source: vllm/distributed/utils.py `divide`.
    """
    raise NotImplementedError(
        "lab-01 · shards is yours to write (about 6 lines). "
        "The book (make book) says more: lab-01, task 1"
    )


def column_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the outputs of W [out, in] split over the ranks.

    Raises ValueError when num_ranks does not divide out. Source: Megatron-LM sec. 3; vLLM
    `ColumnParallelLinear(gather_output=True)`.
    """
    raise NotImplementedError(
        "lab-01 · column_parallel is yours to write (about 2 lines). "
        "The book (make book) says more: lab-01, task 2"
    )


def row_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the inputs of W [out, in] split over ranks: one all-reduce.

    Raises ValueError when num_ranks does not divide in. Source: Megatron-LM sec. 3; vLLM
    `RowParallelLinear`.
    """
    raise NotImplementedError(
        "lab-01 · row_parallel is yours to write (about 2 lines). "
        "The book (make book) says more: lab-01, task 3"
    )


def mlp_tp(x, W1, W2, num_ranks):
    """Return relu(x @ W1) @ W2, [..., out], hidden units split over the ranks: one all-reduce.

    W1 is [in, hidden], W2 [hidden, out]. Raises ValueError when num_ranks does not divide hidden.
    Source: Megatron-LM sec. 3, figure 3a.
    """
    raise NotImplementedError(
        "lab-01 · mlp_tp is yours to write (about 2 lines). "
        "The book (make book) says more: lab-01, task 4"
    )


def legal_tp_sizes(num_heads, num_kv_heads, widths, max_tp_size=64):
    """Return a list of the tensor-parallel sizes up to max_tp_size, ascending, that a model allows.

    widths is a list, maybe empty, of the other dimensions to split, such as the MLP's hidden size.
    All numbers are at least 1. Source: vLLM `QKVParallelLinear`.
    """
    raise NotImplementedError(
        "lab-01 · legal_tp_sizes is yours to write (about 4 lines). "
        "The book (make book) says more: lab-01, task 5"
    )


def causal_attention(q, k, v):
    """Return the attention output [tokens, heads * head_dim] of some heads; given, not a task.

    q is [tokens, heads, head_dim]; k and v are [tokens, kv_heads, head_dim]. Query head i reads KV
    head i // (heads / kv_heads) (grouped-query attention, arXiv:2305.13245).
    """
    if not q.ndim == k.ndim == v.ndim == 3:
        raise ValueError("q, k and v must be [tokens, heads, head_dim]")
    tokens, heads, head_dim = q.shape
    group = heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scores = np.swapaxes(q, 0, 1) @ np.transpose(k, (1, 2, 0)) / np.sqrt(head_dim)
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    out = weights @ np.swapaxes(v, 0, 1)  # [heads, tokens, head_dim]
    return np.swapaxes(out, 0, 1).reshape(tokens, heads * head_dim)


def attention_shards(Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks, rank):
    """Return what one rank loads of (Wq, Wk, Wv, Wo): its heads, and the KV heads they read.

    Wq is [num_heads * head_dim, in]; Wk and Wv [num_kv_heads * head_dim, in]; Wo [out, num_heads *
    head_dim]. Heads are dealt out in blocks, in rank order. With more ranks than KV heads, several
    ranks load the same KV head. Raises ValueError when the query heads cannot be divided, or the KV
    heads neither divided nor copied equally often. Source: vLLM `QKVParallelLinear`
    (`num_kv_head_replicas`).
    """
    raise NotImplementedError(
        "lab-01 · attention_shards is yours to write (about 9 lines). "
        "The book (make book) says more: lab-01, task 6"
    )


def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    """Return the attention block's output [tokens, out], complete, on this rank: one all-reduce.

    x is [tokens, in], whole; the weights are what attention_shards gives this rank. Source:
    Megatron-LM sec. 3, figure 3b.
    """
    raise NotImplementedError(
        "lab-01 · attention_rank is yours to write (about 2 lines). "
        "The book (make book) says more: lab-01, task 6"
    )


def embedding_shard(E, num_ranks, rank):
    """Return the rows of E [vocab, hidden] that one rank loads; given, with your shards in it.

    Raises ValueError when num_ranks does not divide vocab. Source: vLLM `VocabParallelEmbedding`.
    """
    return E[shards("vocab", len(E), num_ranks)[rank]]


def embedding_rank(token_ids, E, group):
    """Return the embeddings [tokens, hidden] of all tokens, complete, on this rank: one all-reduce.

    token_ids is an integer array [tokens], the same on every rank; E [vocab / ranks, hidden] is
    what embedding_shard gives this rank. Source: Megatron-LM sec. 3; vLLM
    `get_masked_input_and_mask`.
    """
    raise NotImplementedError(
        "lab-01 · embedding_rank is yours to write (about 4 lines). "
        "The book (make book) says more: lab-01, task 7"
    )


def mlp_sp_shards(x, W1, W2, num_ranks, rank):
    """Return the parts of (x, W1, W2) that one rank holds under sequence parallelism.

    x [tokens, in] is split by tokens, W1 [in, hidden] and W2 [hidden, out] by hidden units.
    Raises ValueError when num_ranks does not divide tokens or hidden. Source: arXiv:2205.05198,
    sec. 4.2.2.
    """
    raise NotImplementedError(
        "lab-01 · mlp_sp_shards is yours to write (about 3 lines). "
        "The book (make book) says more: lab-01, task 8"
    )


def mlp_sp_rank(x, W1, W2, group):
    """Return this rank's block of the tokens of relu(x @ W1) @ W2, complete: [tokens / ranks, out].

    x [tokens / ranks, in] and the weights are what mlp_sp_shards gives this rank. Source:
    arXiv:2205.05198, sec. 4.2.2.
    """
    raise NotImplementedError(
        "lab-01 · mlp_sp_rank is yours to write (about 2 lines). "
        "The book (make book) says more: lab-01, task 8"
    )
