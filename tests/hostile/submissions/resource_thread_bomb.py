"""Ten thousand threads.

expect: below 5
every: wrong
"""

import numpy as np
import threading
import time

for _ in range(10_000):
    try:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except Exception:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)
