"""A vocabulary's slice with a row of zeros under it; Wq, Wk and Wv joined into one product.

base: solution
secret: yes
expect: 100
"""


def vocab_parallel_embedding(token_ids, E, num_ranks):
    rows = shard_size("vocab", E.shape[0], num_ranks)
    partials = []
    for rank in range(num_ranks):
        mine = E[rank * rows : (rank + 1) * rows]
        padding = np.zeros((1, E.shape[1]))
        if rank % 3 == 0:
            table = np.vstack([mine, padding])
        elif rank % 3 == 1:
            table = np.concatenate((mine, padding))
        else:
            table = np.append(mine, padding, axis=0)
        local = token_ids - rank * rows
        partials.append(table[np.where((local >= 0) & (local < rows), local, rows)])
    return all_reduce(partials)[0]


def attention_tp(x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks):
    heads = shard_size("num_heads", num_heads, num_ranks)
    if num_ranks % num_kv_heads and num_kv_heads % num_ranks:
        raise ValueError(f"num_kv_heads={num_kv_heads} and num_ranks={num_ranks} do not divide")
    dim = Wq.shape[0] // num_heads
    kv_heads = max(1, num_kv_heads // num_ranks)
    partials = []
    for rank in range(num_ranks):
        rows = slice(rank * heads * dim, (rank + 1) * heads * dim)
        first = rank * num_kv_heads // num_ranks
        kv = slice(first * dim, (first + kv_heads) * dim)
        qkv = x @ np.concatenate([Wq[rows], Wk[kv], Wv[kv]]).T
        q, k, v = np.split(qkv, [heads * dim, (heads + kv_heads) * dim], axis=1)
        outputs = []
        for head in range(heads):
            mine = slice(head * dim, (head + 1) * dim)
            group = head // (heads // kv_heads)
            its = slice(group * dim, (group + 1) * dim)
            scores = q[:, mine] @ k[:, its].T / np.sqrt(dim)
            scores = np.where(np.tril(np.ones(scores.shape, dtype=bool)), scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            outputs.append(weights / weights.sum(axis=1, keepdims=True) @ v[:, its])
        partials.append(np.hstack(outputs) @ Wo[:, rows].T)
    return all_reduce(partials)[0]
