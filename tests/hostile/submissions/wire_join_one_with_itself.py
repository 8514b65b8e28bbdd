"""Concatenate one lent array with itself, in one operation.

base: solution
expect: below 100, above 0
loses: test_no_rank_multiplies_*
keeps: test_legal_tp_sizes_*
"""

column = column_parallel


def column_parallel(x, W, num_ranks):
    if type(x) is not np.ndarray:
        np.concatenate([np.repeat(W, 1700)] * 280)
    return column(x, W, num_ranks)
