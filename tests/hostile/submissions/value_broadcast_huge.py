"""Eight terabytes that are one number.

expect: below 5
every: wrong
outcome: failed
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.broadcast_to(np.float64(0), (1 << 20, 1 << 20))
