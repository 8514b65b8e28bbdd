"""Not a number compares false with everything.

expect: below 5
every: wrong
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.full((5, 48), np.nan)
