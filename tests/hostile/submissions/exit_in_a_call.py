"""Leave with success in the middle of a test, the right results given so far.

base: solution
expect: below 100, above 0
outcome: crashed
loses: test_legal_tp_sizes_*
keeps: test_column_parallel__equals_*, test_mlp_sp_rank_*
"""

import os


def legal_tp_sizes(*args):
    os._exit(0)
