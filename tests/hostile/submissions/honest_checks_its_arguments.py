"""Defensive: isinstance, ndim, np.shape, dtype, finite, all before the work.

base: solution
expect: 100
"""


def check(**arrays):
    for name, a in arrays.items():
        if not isinstance(a, np.ndarray):
            raise TypeError(f"{name} must be an array, not {type(a).__name__}")
        if a.ndim not in (2, 3) or np.ndim(a) != len(np.shape(a)):
            raise ValueError(f"{name} has {a.ndim} dimensions")
        if a.dtype != np.float64 or not np.issubdtype(a.dtype, np.floating):
            raise TypeError(f"{name} is {a.dtype}")
        if not np.isfinite(a).all() or np.isnan(a).any():
            raise ValueError(f"{name} is not finite")
        assert np.size(a) == a.size and a.size > 0 and a.nbytes == a.size * a.itemsize


_column, _row, _mlp = column_parallel, row_parallel, mlp_tp


def column_parallel(x, W, num_ranks):
    check(x=x, W=W)
    return _column(x, W, num_ranks)


def row_parallel(x, W, num_ranks):
    check(x=x, W=W)
    y = _row(x, W, num_ranks)
    check(y=y)
    return y


def mlp_tp(x, W1, W2, num_ranks):
    check(x=x, W1=W1, W2=W2)
    y = _mlp(x, W1, W2, num_ranks)
    if not np.all(np.isfinite(y)):
        raise ValueError("overflow")
    return y
