"""One all-reduce among two ranks, whatever their number.

base: solution
expect: below 100, above 0
loses: test_row_parallel__makes_*
keeps: test_row_parallel__equals_*
"""


def row_parallel(x, W, num_ranks):
    shard_size("in_features", W.shape[1], num_ranks)
    half = W.shape[1] // 2
    return all_reduce([x[..., :half] @ W[:, :half].T, x[..., half:] @ W[:, half:].T])[0]
