"""An array of objects that equal everything.

expect: below 5
every: wrong
"""

import numpy as np


class Equal:
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__


def wrong(*args, **kwargs):
    return np.array([[Equal()] * 48] * 5, dtype=object)
