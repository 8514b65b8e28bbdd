"""Become /bin/true.

expect: below 5
every: wrong
"""

import numpy as np
import os

try:
    os.execv('/bin/true', ['true'])
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
