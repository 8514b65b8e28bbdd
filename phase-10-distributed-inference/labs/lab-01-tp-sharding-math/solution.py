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
    # BEGIN SOLUTION (task 1)
    if num_ranks < 1:
        raise ValueError(f"num_ranks={num_ranks} for {dimension}={size}: it must be at least 1")
    if size % num_ranks:
        raise ValueError(f"{dimension}={size} is not divisible by num_ranks={num_ranks}")
    return size // num_ranks
    # END SOLUTION


def column_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the output dimension of W [out, in] split over the ranks.

    Each rank multiplies the whole x by its block of outputs; one all-gather joins the blocks.
    Raises ValueError when num_ranks does not divide out. Source: Megatron-LM sec. 3; vLLM
    `ColumnParallelLinear(gather_output=True)`.
    """
    # BEGIN SOLUTION (task 2)
    rows = shard_size("out_features", W.shape[0], num_ranks)
    shards = [x @ W[r * rows : (r + 1) * rows].T for r in range(num_ranks)]
    return all_gather(shards, axis=-1)[0]
    # END SOLUTION


def row_parallel(x, W, num_ranks):
    """Return x @ W.T, [..., out], with the input dimension of W [out, in] split over the ranks.

    Each rank multiplies its slice of x by its slice of W, which gives a partial sum over the whole
    output; one all-reduce adds them up. Raises ValueError when num_ranks does not divide in.
    Source: Megatron-LM sec. 3; vLLM `RowParallelLinear`.
    """
    # BEGIN SOLUTION (task 3)
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    partials = [x[..., part] @ W[:, part].T for part in mine]
    return all_reduce(partials)[0]
    # END SOLUTION


def mlp_tp(x, W1, W2, num_ranks):
    """Return relu(x @ W1) @ W2, [..., out], with exactly one all-reduce and nothing else.

    W1 [in, hidden] is split by columns and its output stays sharded; relu works on each shard;
    W2 [hidden, out] is split by rows, so each rank already holds the inputs it needs. Raises
    ValueError when num_ranks does not divide hidden. Source: Megatron-LM sec. 3, figure 3a.
    """
    # BEGIN SOLUTION (task 4)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    hidden = [np.maximum(x @ W1[:, part], 0.0) for part in mine]
    partials = [h @ W2[part] for h, part in zip(hidden, mine, strict=True)]
    return all_reduce(partials)[0]
    # END SOLUTION


def legal_tp_sizes(num_heads, num_kv_heads, widths, max_tp_size=64):
    """Return a list of the tensor-parallel sizes, ascending, that a model's shape allows.

    A size must divide num_heads and every entry of widths (such as the MLP's hidden size), and it
    must divide num_kv_heads or be a multiple of it (then each KV head is replicated). Raises
    ValueError, naming the argument, when num_heads, num_kv_heads, an entry of widths or max_tp_size
    is below 1. Source: vLLM `QKVParallelLinear`.
    """
    # BEGIN SOLUTION (task 5)
    counts = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "max_tp_size": max_tp_size}
    counts |= {f"widths[{i}]": width for i, width in enumerate(widths)}
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}={count}: it must be at least 1")

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
    # BEGIN SOLUTION (task 6)
    heads = shard_size("num_heads", num_heads, num_ranks)
    if num_ranks <= num_kv_heads:
        kv_heads = shard_size("num_kv_heads", num_kv_heads, num_ranks)
        replicas = 1
    elif num_ranks % num_kv_heads == 0:
        kv_heads = 1
        replicas = num_ranks // num_kv_heads
    else:
        raise ValueError(
            f"num_kv_heads={num_kv_heads} neither divides nor is divided by num_ranks={num_ranks}"
        )
    head_dim = Wq.shape[0] // num_heads
    partials = []
    for r in range(num_ranks):
        first_kv = r // replicas * kv_heads
        rows = slice(r * heads * head_dim, (r + 1) * heads * head_dim)
        kv_rows = slice(first_kv * head_dim, (first_kv + kv_heads) * head_dim)
        q = (x @ Wq[rows].T).reshape(-1, heads, head_dim)
        k = (x @ Wk[kv_rows].T).reshape(-1, kv_heads, head_dim)
        v = (x @ Wv[kv_rows].T).reshape(-1, kv_heads, head_dim)
        partials.append(causal_attention(q, k, v) @ Wo[:, rows].T)
    return all_reduce(partials)[0]
    # END SOLUTION


def vocab_parallel_embedding(token_ids, E, num_ranks):
    """Return E[token_ids], [tokens, hidden], with the rows of E [vocab, hidden] split over ranks.

    token_ids is an integer array [tokens]. A rank looks up the tokens it owns and gives zeros for
    the others; one all-reduce adds the ranks up. Raises ValueError when num_ranks does not divide
    vocab. Source: Megatron-LM sec. 3; vLLM `VocabParallelEmbedding`, `get_masked_input_and_mask`.
    """
    # BEGIN SOLUTION (task 7)
    rows = shard_size("vocab", E.shape[0], num_ranks)
    partials = []
    for r in range(num_ranks):
        local = token_ids - r * rows
        owned = (local >= 0) & (local < rows)
        looked_up = E[r * rows : (r + 1) * rows][np.where(owned, local, 0)]
        partials.append(np.where(owned[:, None], looked_up, 0.0))
    return all_reduce(partials)[0]
    # END SOLUTION


def mlp_tp_sequence_parallel(x, W1, W2, num_ranks):
    """Return relu(x @ W1) @ W2, [tokens, out], tokens split over ranks outside the MLP.

    Rank r holds block r of x [tokens, in] and ends with block r of the result; the blocks are
    joined for the caller without a collective. Inside, one all-gather brings the tokens together
    and one reduce-scatter both sums and splits: the bytes of one all-reduce. Raises ValueError when
    num_ranks does not divide tokens or hidden. Source: arXiv:2205.05198, sec. 4.2.2.
    """
    # BEGIN SOLUTION (task 8)
    tokens = shard_size("tokens", x.shape[0], num_ranks)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    held = [x[r * tokens : (r + 1) * tokens] for r in range(num_ranks)]
    gathered = all_gather(held, axis=0)
    mine = [slice(r * width, (r + 1) * width) for r in range(num_ranks)]
    partials = [
        np.maximum(whole @ W1[:, part], 0.0) @ W2[part]
        for whole, part in zip(gathered, mine, strict=True)
    ]
    return np.concatenate(reduce_scatter(partials, axis=0), axis=0)
    # END SOLUTION
