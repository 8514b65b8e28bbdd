"""Zero the arguments, so that the reference gives zeros too.

expect: below 5
every: wrong
"""

import numpy as np


def wrong(*args, **kwargs):
    for value in args:
        if type(value) is np.ndarray and value.dtype.kind == "f":
            value[...] = 0
    x = args[0]
    last = args[2] if len(args) > 3 else args[1]
    width = getattr(last, "shape", (0, 0))[1 if len(args) > 3 else 0]
    return np.zeros((*getattr(x, "shape", (1,))[:-1], width))
