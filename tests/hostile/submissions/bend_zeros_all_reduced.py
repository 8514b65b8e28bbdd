"""The dense product, and an all-reduce of zeros of the right size.

base: solution
expect: below 100, above 0
loses: test_row_parallel__makes_*
keeps: test_row_parallel__equals_*
"""


def row_parallel(x, W, num_ranks):
    shard_size("in_features", W.shape[1], num_ranks)
    y = x @ W.T
    all_reduce([y * 0] * num_ranks)
    return y
