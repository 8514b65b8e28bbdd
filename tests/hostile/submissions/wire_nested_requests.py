"""Collectives whose arguments are as deep and as many as the wire allows.

base: solution
expect: below 100, above 0
loses: test_legal_tp_sizes_*
keeps: test_row_parallel_*
"""

import collectives


def legal_tp_sizes(*args):
    deep = []
    for _ in range(19):  # more than 400,000 values
        deep = [deep, deep]
    return collectives.all_reduce(deep)
