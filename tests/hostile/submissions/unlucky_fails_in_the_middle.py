"""Wrong in one function, which raises in the middle of its products; the others are right.

base: solution
expect: below 100, above 0
loses: test_row_parallel__equals_*
keeps: test_column_parallel__equals_*, test_mlp_sp_rank_*
"""


def row_parallel(x, W, num_ranks):
    part = x @ W.T
    raise RuntimeError("not finished")
