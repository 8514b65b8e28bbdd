"""Right results, but the argument is changed on the way.

base: solution
expect: below 100, above 0
loses: test_row_parallel__equals*
keeps: test_column_parallel__equals_*
"""

_row = row_parallel


def row_parallel(x, W, num_ranks):
    y = _row(x, W, num_ranks)
    if type(x) is np.ndarray:
        x *= 2.0
    return y
