"""Wait for the grader to give up.

base: solution
ends: no
expect: below 100, above 0
loses: test_legal_tp_sizes_*
"""

import time


def legal_tp_sizes(*args):
    time.sleep(3600)
