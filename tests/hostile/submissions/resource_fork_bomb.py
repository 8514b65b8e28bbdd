"""Processes that start processes.

expect: below 5
every: wrong
"""

import numpy as np
import os

for _ in range(2000):
    try:
        os.fork()
    except OSError:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)
