"""An array whose arithmetic is always right.

expect: below 5
every: wrong
"""

import numpy as np


class Right(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return np.zeros(1)

    def __array_function__(self, function, types, args, kwargs):
        return True


def wrong(*args, **kwargs):
    return np.zeros((5, 48)).view(Right)
