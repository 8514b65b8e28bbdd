"""Everything by einsum, with and without optimize.

base: solution
expect: 100
"""


def column_parallel(x, W, num_ranks):
    n = shard_size("out_features", W.shape[0], num_ranks)
    outs = [
        np.einsum("...i,oi->...o", x, W[n * k : n * (k + 1)], optimize=True)
        for k in range(num_ranks)
    ]
    return all_gather(outs, axis=-1)[0]


def row_parallel(x, W, num_ranks):
    n = shard_size("in_features", W.shape[1], num_ranks)
    parts = []
    for k in range(num_ranks):
        cut = slice(n * k, n * (k + 1))
        parts.append(np.einsum("...i,oi->...o", x[..., cut], W[:, cut], optimize="greedy"))
    return all_reduce(parts)[0]


def mlp_tp(x, W1, W2, num_ranks):
    n = shard_size("hidden", W1.shape[1], num_ranks)
    parts = []
    for k in range(num_ranks):
        cut = slice(n * k, n * (k + 1))
        h = np.einsum("...i,ih->...h", x, W1[:, cut])
        h = np.clip(h, a_min=0, a_max=None)
        parts.append(np.einsum("...h,ho->...o", h, W2[cut, :]))
    return all_reduce(parts)[0]
