"""One function never returns; the others are right.

base: solution
expect: below 100, above 0
outcome: timeout
loses: test_legal_tp_sizes_*
keeps: test_mlp_sp_rank_*
live: no
"""

def legal_tp_sizes(*args):
    while True:
        pass
