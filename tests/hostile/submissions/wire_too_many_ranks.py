"""Make the grader simulate a collective of many thousand ranks.

base: solution
expect: below 100, above 0
loses: test_legal_tp_sizes_*
keeps: test_mlp_sp_rank_*
"""

import collectives


def legal_tp_sizes(*args):
    return collectives.all_gather([np.zeros(100)] * 20_000)
