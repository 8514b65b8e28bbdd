"""Close everything that is open.

expect: below 5
every: wrong
outcome: crashed
"""

import numpy as np
import os
import sys

if "_pytest" not in sys.modules and "unittest" not in sys.modules:
    os.closerange(3, 256)


def wrong(*args, **kwargs):
    return np.zeros(1)
