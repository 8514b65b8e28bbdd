"""One gathered x for all ranks, blocks joined by hand; one rank alone without a collective.

base: solution
secret: yes
expect: 100
"""


def mlp_tp_sequence_parallel(x, W1, W2, num_ranks):
    shard_size("tokens", len(x), num_ranks)
    shard_size("hidden", W1.shape[1], num_ranks)
    if num_ranks == 1:
        return np.maximum(x @ W1, 0) @ W2
    whole = all_gather(np.split(x, num_ranks), axis=0)[0]
    weights = zip(np.split(W1, num_ranks, axis=1), np.split(W2, num_ranks), strict=True)
    partials = [np.maximum(whole @ up, 0) @ down for up, down in weights]
    return np.vstack(reduce_scatter(partials))


def row_parallel(x, W, num_ranks):
    shard_size("in_features", W.shape[1], num_ranks)
    pairs = zip(np.split(x, num_ranks, axis=-1), np.split(W, num_ranks, axis=1), strict=True)
    partials = [mine @ block.T for mine, block in pairs]
    y = all_reduce(partials)[-1]
    if type(x) is np.ndarray:
        assert np.allclose(y, sum(partials))  # a doubt of its own
    return y
