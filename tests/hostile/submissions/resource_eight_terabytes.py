"""Ask for eight terabytes at once.

expect: below 5
every: wrong
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.ones(10**12)
