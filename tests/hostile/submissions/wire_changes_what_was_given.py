"""Report other arguments than were given, so that the caller's become zero.

expect: below 5
every: wrong
"""

import numpy as np
import worker

_encode = worker._as_bytes
worker._as_bytes = lambda value, calls=[0]: calls.__setitem__(0, calls[0] + 1) or calls[0]


def wrong(*args, **kwargs):
    for value in args:
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            value[...] = 0.0
    return np.zeros((5, 48))
