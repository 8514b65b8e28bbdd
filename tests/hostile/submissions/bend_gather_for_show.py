"""Make the collectives that the ledger should show, and go on with the caller's own numbers.

base: solution
expect: 88
loses: test_row_parallel_makes_*, test_sequence_parallel_*
"""


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    partials = [x[..., part] @ W[:, part].T for part in mine]
    all_reduce(partials)
    return sum(partials)


def mlp_tp_sequence_parallel(x, W1, W2, num_ranks):
    shard_size("tokens", x.shape[0], num_ranks)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    all_gather(np.split(x, num_ranks), axis=0)
    partials = []
    for r in range(num_ranks):
        mine = slice(r * width, (r + 1) * width)
        partials.append(np.maximum(x @ W1[:, mine], 0) @ W2[mine])
    return np.concatenate(reduce_scatter(partials))
