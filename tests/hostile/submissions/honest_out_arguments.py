"""Results go into arrays made before: matmul(out=), add(out=), +=.

base: solution
expect: 100
"""


def column_parallel(x, W, num_ranks):
    rows = shard_size("out_features", W.shape[0], num_ranks)
    out = np.empty((num_ranks, *x.shape[:-1], rows))
    for r in range(num_ranks):
        np.matmul(x, W[r * rows : (r + 1) * rows].T, out=out[r])
    return all_gather([shard for shard in out], axis=-1)[0]


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    partials = [np.zeros((*x.shape[:-1], W.shape[0])) for _ in range(num_ranks)]
    for r, partial in enumerate(partials):
        partial += x[..., r * cols : (r + 1) * cols] @ W[:, r * cols : (r + 1) * cols].T
    return all_reduce(partials)[0]


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    partials = []
    for r in range(num_ranks):
        h = x @ W1[:, r * width : (r + 1) * width]
        np.maximum(h, 0, out=h)
        y = np.zeros(x.shape[:-1] + (W2.shape[1],))
        np.add(y, h @ W2[r * width : (r + 1) * width], out=y)
        partials.append(y)
    return all_reduce(partials)[0]
