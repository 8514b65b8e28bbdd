"""Results are Fortran-ordered, views with negative strides, slices of something larger.

base: solution
expect: 100
"""

_column, _row, _mlp = column_parallel, row_parallel, mlp_tp


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
