"""Answer after the end.

expect: below 5
every: wrong
"""

import atexit
import os
import sys

atexit.register(lambda: [os.write(n, b'["value", 12, null, ""]\n') for n in range(3, 20)])


def wrong(*args, **kwargs):
    sys.exit(0)
