"""Token by token and output by output, with dot products of rows.

base: solution
expect: 100
"""


def column_parallel(x, W, num_ranks):
    rows = shard_size("out_features", W.shape[0], num_ranks)
    if x.ndim == 3:
        return np.stack([column_parallel_2d(b, W, num_ranks, rows) for b in x]) if num_ranks == 1 else _whole(x, W, num_ranks, rows)
    return column_parallel_2d(x, W, num_ranks, rows)


def _whole(x, W, num_ranks, rows):
    shards = [
        np.array([[np.inner(t, W[r * rows : (r + 1) * rows]) for t in b] for b in x])
        for r in range(num_ranks)
    ]
    return all_gather(shards, axis=-1)[0]


def column_parallel_2d(x, W, num_ranks, rows):
    shards = []
    for r in range(num_ranks):
        mine = W[r * rows : (r + 1) * rows]
        shards.append(np.array([[np.dot(token, row) for row in mine] for token in x]))
    return all_gather(shards, axis=-1)[0]


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    partials = []
    for r in range(num_ranks):
        up, down = W1[:, r * width : (r + 1) * width], W2[r * width : (r + 1) * width]
        partials.append(np.apply_along_axis(lambda h: h @ down, -1, np.maximum(x @ up, 0)))
    return all_reduce(partials)[0]
