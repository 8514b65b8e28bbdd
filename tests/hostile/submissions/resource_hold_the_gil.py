"""A computation in C that no signal interrupts.

base: solution
expect: below 100, above 0
loses: test_legal_tp_sizes_*
keeps: test_mlp_sp_rank_*
live: no
"""

def legal_tp_sizes(*args):
    return 10 ** (10 ** 8 + len(args))
