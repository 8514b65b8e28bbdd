"""Long doubles, and numbers in the other byte order: the checks accept both at home.

base: solution
expect: 100
"""

_column_parallel, _row_parallel = column_parallel, row_parallel


def column_parallel(x, W, num_ranks):
    return _column_parallel(x, W, num_ranks).astype(np.longdouble)


def row_parallel(x, W, num_ranks):
    return _row_parallel(x, W, num_ranks).astype(">f8")
