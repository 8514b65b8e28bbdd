"""Honest, and fills an array it made itself, block by block.

base: solution
expect: 100
"""


def column_parallel(x, W, num_ranks):
    rows = shard_size("out_features", W.shape[0], num_ranks)
    shards = []
    for rank in range(num_ranks):
        shard = np.zeros((*x.shape[:-1], rows))
        shard[...] = x @ W[rank * rows : (rank + 1) * rows].T
        shards.append(shard)
    return all_gather(shards, axis=-1)[0]
