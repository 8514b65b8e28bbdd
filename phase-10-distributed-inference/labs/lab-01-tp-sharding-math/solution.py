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
    # BEGIN SOLUTION (task 1)
    if num_ranks < 1:
        raise ValueError(f"num_ranks={num_ranks} for {dimension}={size}: it must be at least 1")
    if size % num_ranks:
        raise ValueError(f"{dimension}={size} is not divisible by num_ranks={num_ranks}")
    width = size // num_ranks
    return [slice(rank * width, (rank + 1) * width) for rank in range(num_ranks)]
    # END SOLUTION


def column_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the outputs of W [out, in] split over the ranks.

    Raises ValueError when num_ranks does not divide out. Source: Megatron-LM sec. 3; vLLM
    `ColumnParallelLinear(gather_output=True)`.
    """
    # BEGIN SOLUTION (task 2)
    outputs = shards("out_features", W.shape[0], num_ranks)
    return all_gather([x @ W[mine].T for mine in outputs], axis=-1)[0]
    # END SOLUTION


def row_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the inputs of W [out, in] split over ranks: one all-reduce.

    Raises ValueError when num_ranks does not divide in. Source: Megatron-LM sec. 3; vLLM
    `RowParallelLinear`.
    """
    # BEGIN SOLUTION (task 3)
    inputs = shards("in_features", W.shape[1], num_ranks)
    return all_reduce([x[..., mine] @ W[:, mine].T for mine in inputs])[0]
    # END SOLUTION


def mlp_tp(x, W1, W2, num_ranks):
    """Return relu(x @ W1) @ W2, [..., out], hidden units split over the ranks: one all-reduce.

    W1 is [in, hidden], W2 [hidden, out]. Raises ValueError when num_ranks does not divide hidden.
    Source: Megatron-LM sec. 3, figure 3a.
    """
    # BEGIN SOLUTION (task 4)
    hidden = shards("hidden", W1.shape[1], num_ranks)
    return all_reduce([np.maximum(x @ W1[:, mine], 0.0) @ W2[mine] for mine in hidden])[0]
    # END SOLUTION


def legal_tp_sizes(num_heads, num_kv_heads, widths, max_tp_size=64):
    """Return a list of the tensor-parallel sizes up to max_tp_size, ascending, that a model allows.

    widths is a list, maybe empty, of the other dimensions to split, such as the MLP's hidden size.
    All numbers are at least 1. Source: vLLM `QKVParallelLinear`.
    """
    # BEGIN SOLUTION (task 5)

    def is_legal(tp_size):
        splits = all(size % tp_size == 0 for size in (num_heads, *widths))
        return splits and (num_kv_heads % tp_size == 0 or tp_size % num_kv_heads == 0)

    return [tp_size for tp_size in range(1, max_tp_size + 1) if is_legal(tp_size)]
    # END SOLUTION


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
    # BEGIN SOLUTION (task 6)
    head_dim = Wq.shape[0] // num_heads
    copies = max(1, num_ranks // num_kv_heads)  # ranks that load the same KV head
    heads = shards("num_heads", num_heads, num_ranks)[rank]
    kv_heads = shards("num_kv_heads x copies", num_kv_heads * copies, num_ranks)[rank]
    kv_heads = slice(kv_heads.start // copies, -(-kv_heads.stop // copies))

    def entries(heads):
        return slice(heads.start * head_dim, heads.stop * head_dim)

    mine, shared = entries(heads), entries(kv_heads)
    return Wq[mine], Wk[shared], Wv[shared], Wo[:, mine]
    # END SOLUTION


def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    """Return the attention block's output [tokens, out], complete, on this rank: one all-reduce.

    x is [tokens, in], whole; the weights are what attention_shards gives this rank. Source:
    Megatron-LM sec. 3, figure 3b.
    """
    # BEGIN SOLUTION (task 6)
    q, k, v = ((x @ W.T).reshape(len(x), -1, head_dim) for W in (Wq, Wk, Wv))
    return group.all_reduce(causal_attention(q, k, v) @ Wo.T)
    # END SOLUTION


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
    # BEGIN SOLUTION (task 7, stretch)
    local = token_ids - group.rank * len(E)
    owned = (local >= 0) & (local < len(E))
    rows = E[np.where(owned, local, 0)]
    return group.all_reduce(np.where(owned[:, None], rows, 0.0))
    # END SOLUTION


def mlp_sp_shards(x, W1, W2, num_ranks, rank):
    """Return the parts of (x, W1, W2) that one rank holds under sequence parallelism.

    x [tokens, in] is split by tokens, W1 [in, hidden] and W2 [hidden, out] by hidden units.
    Raises ValueError when num_ranks does not divide tokens or hidden. Source: arXiv:2205.05198,
    sec. 4.2.2.
    """
    # BEGIN SOLUTION (task 8, stretch)
    tokens = shards("tokens", len(x), num_ranks)[rank]
    hidden = shards("hidden", W1.shape[1], num_ranks)[rank]
    return x[tokens], W1[:, hidden], W2[hidden]
    # END SOLUTION


def mlp_sp_rank(x, W1, W2, group):
    """Return this rank's block of the tokens of relu(x @ W1) @ W2, complete: [tokens / ranks, out].

    x [tokens / ranks, in] and the weights are what mlp_sp_shards gives this rank. Source:
    arXiv:2205.05198, sec. 4.2.2.
    """
    # BEGIN SOLUTION (task 8, stretch)
    whole = group.all_gather(x, axis=0)
    return group.reduce_scatter(np.maximum(whole @ W1, 0.0) @ W2, axis=0)
    # END SOLUTION
