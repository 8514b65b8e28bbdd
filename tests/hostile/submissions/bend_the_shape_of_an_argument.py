"""Changes the shape of an argument, which the caller still holds.

base: solution
expect: below 100, above 0
"""

_row = row_parallel


def row_parallel(x, W, num_ranks):
    result = _row(x, W, num_ranks)
    if x.ndim == 2:
        x.shape = (1, *x.shape)
    return result
