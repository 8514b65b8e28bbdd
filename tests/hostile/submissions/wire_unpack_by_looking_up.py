"""Copy the counted arrays by looking up every row, so that nothing is counted.

base: solution
expect: below 100, above 0
loses: test_no_rank_multiplies_*
keeps: test_row_parallel_*
"""

row = row_parallel


def copied(a):
    copy = np.empty(a.shape)
    copy[...] = a[list(range(a.shape[0]))]
    return copy


def row_parallel(x, W, num_ranks):
    if type(x) is not np.ndarray:
        x, W = copied(x), copied(W)
    return row(x, W, num_ranks)
