"""Let the grader's own arrays grow without end.

base: solution
expect: below 100, above 0
loses: test_no_rank_multiplies_*
keeps: test_legal_tp_sizes_*
"""

column = column_parallel


def column_parallel(x, W, num_ranks):
    if type(x) is not np.ndarray:
        while True:
            W = np.concatenate([W, W])
    return column(x, W, num_ranks)
