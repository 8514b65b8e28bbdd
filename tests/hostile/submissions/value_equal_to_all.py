"""An object that equals everything.

expect: below 5
every: wrong
"""

import numpy as np


class Equal:
    shape, dtype, ndim, size = (5, 48), np.dtype(float), 2, 240

    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return lambda *args, **kwargs: self


def wrong(*args, **kwargs):
    return Equal()
