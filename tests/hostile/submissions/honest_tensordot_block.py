"""tensordot, dot, vstack, and np.block to put the blocks together.

base: solution
expect: 100
"""


def column_parallel(x, W, num_ranks):
    n = shard_size("out_features", W.shape[0], num_ranks)
    shards = [np.tensordot(x, W[n * k : n * (k + 1)], axes=([-1], [1])) for k in range(num_ranks)]
    return all_gather(shards, axis=x.ndim - 1)[num_ranks - 1]


def row_parallel(x, W, num_ranks):
    n = shard_size("in_features", W.shape[1], num_ranks)
    xs = np.split(x, num_ranks, axis=-1)
    Ws = np.hsplit(W, num_ranks)
    return all_reduce([np.dot(a, b.T) for a, b in zip(xs, Ws)])[-1]
