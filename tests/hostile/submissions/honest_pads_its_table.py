"""A vocabulary's slice out of a reshaped E, zeros made of it underneath; einsum with lists.

base: solution
secret: yes
expect: 100
"""


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    partials = []
    for rank in range(num_ranks):
        s = slice(rank * cols, (rank + 1) * cols)
        y = np.einsum(x[..., s], [..., 0], W[:, s], [1, 0], [..., 1], optimize=True)
        partials.append(y)
    return all_reduce(partials)[0]


def vocab_parallel_embedding(token_ids, E, num_ranks):
    rows = shard_size("vocab", E.shape[0], num_ranks)
    tables = E.reshape(num_ranks, rows, E.shape[1])
    partials = []
    for rank in range(num_ranks):
        mine = tables[rank]
        if rank % 3 == 0:
            table = np.vstack([mine, np.zeros_like(mine[:1])])
        elif rank % 3 == 1:
            table = np.concatenate([mine, 0 * mine[:1]]).copy()
        else:
            table = np.zeros_like(E, shape=(rows + 1, E.shape[1]))
            table[:rows] = mine
        local = token_ids - rank * rows
        owned = (local >= 0) & (local < rows)
        partials.append(table[np.where(owned, local, rows)])
    return all_reduce(partials)[0]
