"""Fill the judge's ledger with collectives as large as it takes.

base: solution
expect: below 100, above 0
loses: test_row_parallel__makes_*
keeps: test_legal_tp_sizes_*
"""

_row = row_parallel


def row_parallel(x, W, num_ranks):
    for _ in range(1000):
        all_reduce([np.zeros(10_000)] * 8)
    return _row(x, W, num_ranks)
