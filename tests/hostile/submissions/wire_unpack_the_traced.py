"""Copy the counted arrays, so that nothing is counted.

base: solution
expect: below 100, above 0
loses: test_no_rank_multiplies_*
"""

row = row_parallel


def row_parallel(x, W, num_ranks):
    return row(np.array(x.tolist()), np.array(W.tolist()), num_ranks)
