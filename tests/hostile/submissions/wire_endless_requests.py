"""Ask the grader for collectives without end.

base: solution
expect: below 100, above 0
outcome: timeout
loses: test_legal_tp_sizes_*
"""

import collectives


def legal_tp_sizes(*args):
    while True:
        collectives.all_reduce([np.zeros(1)] * 2)
