"""Tell the next submission something by locking a file that all may read.

base: solution
expect: 100
"""

import fcntl
import sys

HELD = []
for module in list(sys.modules.values()):
    path = getattr(module, "__file__", None)
    try:
        HELD.append(open(path, "rb"))
        fcntl.flock(HELD[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, TypeError):
        pass
