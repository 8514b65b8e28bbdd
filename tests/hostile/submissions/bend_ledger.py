"""Dense products, and a forged entry in the ledger.

base: solution
expect: below 95, above 0
loses: test_row_parallel__makes_*
keeps: test_row_parallel__equals_*
"""

import collectives


def row_parallel(x, W, num_ranks):
    shard_size("in_features", W.shape[1], num_ranks)
    y = x @ W.T
    try:
        collectives._write("all_reduce", [y] * num_ranks, y.nbytes, 1, [y] * num_ranks)
    except AttributeError:
        pass
    return y
