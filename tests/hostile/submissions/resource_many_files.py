"""A million files, and one of a terabyte.

expect: below 5
every: wrong
"""

import numpy as np
import os

try:
    open("/tmp/sparse", "w").close()
    os.truncate("/tmp/sparse", 1 << 40)
except OSError:
    pass
try:
    for number in range(1_000_000):
        open(f"/tmp/{number}", "w").close()
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
