"""Announce four gigabytes.

expect: below 5
every: wrong
outcome: protocol
"""

import numpy as np
import os

try:
    os.write(3, b"\xff\xff\xff\xff")
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
