"""A list of four hundred thousand small arrays, which takes long to write down.

base: starter
expect: 0
outcome: failed
says: more than 400000 values
"""

import numpy as np


def legal_tp_sizes(*args):
    return [np.full(1, 1 / 3)] * 390_000
