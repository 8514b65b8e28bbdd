"""A terabyte that takes eight bytes.

expect: below 5
every: wrong
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.broadcast_to(0.0, (10**6, 10**6))
