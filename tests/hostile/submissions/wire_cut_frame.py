"""Announce a frame and never finish it.

expect: below 5
every: wrong
outcome: timeout
"""

import numpy as np
import os
import time

try:
    os.write(3, b"\x00\x01\x00\x00T")
    time.sleep(30)
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
