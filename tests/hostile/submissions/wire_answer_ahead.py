"""Answer calls that were not made yet, on every socket there is.

expect: below 5
every: wrong
"""

import os
import stat

for descriptor in range(3, 256):
    try:
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            os.write(descriptor, b'0 ["value", 12, null, ""]\n' * 300)
    except OSError:
        pass


def wrong(*args, **kwargs):
    return 12
