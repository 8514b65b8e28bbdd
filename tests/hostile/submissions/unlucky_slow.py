"""Honest, and slow within the limit.

base: solution
expect: 100
"""

import time

time.sleep(0.1)
_legal = legal_tp_sizes


def legal_tp_sizes(*args):
    time.sleep(0.05)
    return _legal(*args)
