"""Wait for the grader to give up.

base: solution
expect: below 100, above 0
outcome: timeout
loses: test_legal_tp_sizes_*
"""

import time


def legal_tp_sizes(*args):
    time.sleep(3600)
