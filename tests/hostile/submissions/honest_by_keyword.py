"""Operands by keyword, results into `out`, shapes of their own, ranges as indices, np.linalg.

base: solution
expect: 100
"""


def column_parallel(x, W, num_ranks):
    rows = shard_size("out_features", W.shape[0], num_ranks)
    y = np.empty_like(x, shape=(*x.shape[:-1], W.shape[0]), dtype=float)
    shards = []
    for rank in range(num_ranks):
        mine = range(rank * rows, (rank + 1) * rows)
        shards.append(np.tensordot(a=x, b=np.take(W, mine, axis=0).T, axes=1))
    np.concatenate(all_gather(shards, axis=-1)[:1], axis=-1, out=y)
    return y


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    partials = []
    for rank in range(num_ranks):
        mine = range(rank * cols, (rank + 1) * cols)
        y = np.zeros_like(x, float, shape=[*x.shape[:-1], W.shape[0]])
        np.dot(x[..., mine], W[:, mine].T, out=y)
        partials.append(y)
    return all_reduce(partials)[0]


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    partials = []
    for rank in range(num_ranks):
        block = slice(rank * width, (rank + 1) * width)
        h = np.full_like(x, 0.0, shape=(*x.shape[:-1], width))
        np.einsum("...i,ih->...h", x, W1[:, block], out=h)
        partials.append(np.linalg.matmul(np.maximum(h, 0.0), W2[block]))
    return all_reduce(partials)[0]


def reduce_scatter_joined(partials):
    return np.concatenate(reduce_scatter(partials, axis=0), axis=0)
