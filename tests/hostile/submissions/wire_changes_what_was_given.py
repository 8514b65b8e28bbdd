"""Report other arguments than were given, so that the caller's become zero.

expect: below 5
every: wrong
"""

import numpy as np
import worker

worker._stands_in = lambda frame, pair: False


def wrong(*args, **kwargs):
    for value in args:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value[...] = 0.0
    return np.zeros((5, 48))
