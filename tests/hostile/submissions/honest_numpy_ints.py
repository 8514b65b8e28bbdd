"""Whole numbers come from numpy, axes too.

base: solution
expect: 100
"""

_legal = legal_tp_sizes


def shard_size(dimension, size, num_ranks):
    if num_ranks < 1:
        raise ValueError(f"{dimension}: {size} over {num_ranks}")
    whole, rest = np.divmod(size, num_ranks)
    if rest:
        raise ValueError(f"{dimension}: {size} over {num_ranks} leaves {rest}")
    return whole


def legal_tp_sizes(num_heads, num_kv_heads, widths, max_tp_size=64):
    _legal(num_heads, num_kv_heads, widths, max_tp_size)
    sizes = np.arange(1, max_tp_size + 1)
    good = (num_heads % sizes == 0) & ((num_kv_heads % sizes == 0) | (sizes % num_kv_heads == 0))
    for width in widths:
        good &= width % sizes == 0
    return list(sizes[good])


def column_parallel(x, W, num_ranks):
    rows = shard_size("out_features", W.shape[0], num_ranks)
    starts = np.arange(num_ranks) * rows
    last = np.argmax(x.shape)
    return all_gather([x @ W[s : s + rows].T for s in starts], axis=np.int64(-1))[0]
