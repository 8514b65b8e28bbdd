"""Replace the collectives by ones that count nothing wrong.

base: solution
expect: below 100, above 0
loses: test_row_parallel__makes_*
"""

import collectives


def row_parallel(x, W, num_ranks):
    collectives.all_reduce = collectives.all_gather = lambda parts, axis=0: parts
    return x @ W.T
