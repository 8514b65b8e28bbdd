"""Results are Fortran-ordered, views with negative strides, slices of something larger.

base: solution
secret: yes
expect: 100
"""

_column, _row, _mlp, _embed = column_parallel, row_parallel, mlp_tp, vocab_parallel_embedding


def column_parallel(x, W, num_ranks):
    return np.asfortranarray(_column(x, W, num_ranks))


def row_parallel(x, W, num_ranks):
    y = _row(x, W, num_ranks)
    turned = np.flip(y, axis=-1).copy()
    return turned[..., ::-1]


def mlp_tp(x, W1, W2, num_ranks):
    y = _mlp(x, W1, W2, num_ranks)
    room = np.full((*y.shape[:-1], 2 * y.shape[-1]), np.pi)
    room[..., ::2] = y
    return room[..., ::2]


def vocab_parallel_embedding(token_ids, E, num_ranks):
    y = _embed(token_ids, E, num_ranks)
    return np.stack([y, y], axis=1)[:, 1, :]


def mlp_tp_sequence_parallel(x, W1, W2, num_ranks):
    tokens = shard_size("tokens", x.shape[0], num_ranks)
    width = shard_size("hidden", W1.shape[1], num_ranks)
    full = all_gather(tuple(x.reshape(num_ranks, tokens, -1)), axis=0)
    parts = [
        (W2[i * width : (i + 1) * width].T @ np.maximum(W1[:, i * width : (i + 1) * width].T @ f.T, 0)).T
        for i, f in enumerate(full)
    ]
    return np.array(reduce_scatter(parts, axis=0)).reshape(x.shape[0], -1)
