"""Calls that the filter refuses, under both of their numbers.

expect: below 5
every: wrong
"""

import numpy as np
import ctypes

LIBC = ctypes.CDLL(None)
for number in (101, 165, 272, 310, 321, 323, 425, 59, 41, 56, 57, 435):
    if number in (56, 57, 435, 59):
        continue
    LIBC.syscall(number, 0, 0, 0, 0, 0)


def wrong(*args, **kwargs):
    return np.zeros(1)
