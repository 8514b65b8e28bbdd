"""Ask for eight terabytes at once.

expect: below 5
every: wrong
live: no
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.ones(10**12)
