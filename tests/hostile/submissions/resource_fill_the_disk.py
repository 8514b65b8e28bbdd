"""Write until nothing fits any more.

expect: below 5
every: wrong
"""

import numpy as np
for place in ("/tmp", "/dev/shm", "/var/tmp", "."):
    try:
        with open(f"{place}/full", "wb") as file:
            while True:
                file.write(bytes(1 << 20))
    except OSError:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)
