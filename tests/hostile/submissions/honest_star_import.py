"""from collectives import *, which brings record and numpy along.

base: solution
first: from collectives import *
expect: 100
"""

from collectives import *


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    with record() as ledger:
        y = all_reduce(
            [x[..., i : i + cols] @ W[:, i : i + cols].T for i in range(0, W.shape[1], cols)]
        )[0]
    assert num_ranks == 1 or ledger.operations == ["all_reduce"], ledger
    return y
