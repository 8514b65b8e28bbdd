"""A list of four hundred thousand small arrays, which takes long to write down.

expect: below 5
every: wrong
"""

import numpy as np


def wrong(*args, **kwargs):
    return [np.full(1, 1 / 3)] * 390_000
