"""A fully masked array equals everything.

expect: below 5
every: wrong
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.ma.masked_all((5, 48))
