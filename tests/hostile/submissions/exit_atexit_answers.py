"""Answer after the end.

expect: below 5
every: wrong
"""

import atexit
import os
import sys

wire = sys.modules.get("wire")
atexit.register(lambda: os.write(3, wire.frame(("value", 12, None))))


def wrong(*args, **kwargs):
    sys.exit(0)
