"""Fill every array of the process with zeros, and return zeros.

expect: below 5
every: wrong
"""

import gc

import numpy as np


def wrong(*args, **kwargs):
    for thing in gc.get_objects():
        if isinstance(thing, dict):
            for value in list(thing.values()):
                if isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind == "f":
                    value[...] = 0
    return np.zeros((5, 48))
