"""Overflow the C stack through repr of nested lists.

base: solution
expect: below 100, above 0
loses: test_legal_tp_sizes_*
keeps: test_mlp_sp_rank_*
"""

import sys


def legal_tp_sizes(*args):
    sys.setrecursionlimit(10**8)
    nested = []
    for _ in range(10**6):
        nested = [nested]
    return repr(nested)
