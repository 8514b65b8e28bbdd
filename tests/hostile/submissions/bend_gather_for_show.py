"""Make the collectives that the ledger should show, and go on with the caller's own numbers.

base: solution
expect: below 100, above 80
loses: test_row_parallel__makes_*
"""


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    mine = [slice(r * cols, (r + 1) * cols) for r in range(num_ranks)]
    partials = [x[..., part] @ W[:, part].T for part in mine]
    all_reduce(partials)
    return sum(partials)
