"""Shards are made contiguous, as a GPU would want them; the activations are as given.

base: solution
expect: 100
"""


def column_parallel(x, W, num_ranks):
    rows = shard_size("out_features", W.shape[0], num_ranks)
    shards = [np.ascontiguousarray(W[r * rows : (r + 1) * rows].T) for r in range(num_ranks)]
    return all_gather([x @ shard for shard in shards], axis=-1)[0]


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    shards = [np.array(W[:, r * cols : (r + 1) * cols]) for r in range(num_ranks)]
    partials = [x[..., r * cols : (r + 1) * cols] @ s.T for r, s in enumerate(shards)]
    return np.ascontiguousarray(all_reduce(partials)[0])


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    up = [np.asfortranarray(W1[:, r * width : (r + 1) * width]) for r in range(num_ranks)]
    down = [np.asarray(W2[r * width : (r + 1) * width], dtype=np.float64) for r in range(num_ranks)]
    partials = [np.maximum(x @ a, 0.0) @ b for a, b in zip(up, down)]
    return all_reduce(partials)[0]
