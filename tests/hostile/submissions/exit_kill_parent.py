"""Kill the grader, and everything else.

expect: below 5
every: wrong
"""

import numpy as np
import os
import signal

for pid in (os.getppid(), -1, 1):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)
