"""A thread that rewrites the tests once they are there.

expect: below 5
every: wrong
"""

import numpy as np
import sys
import threading
import time


def patch():
    for _ in range(2000):
        for name, module in list(sys.modules.items()):
            if "test_lab" in name or "expect" in name:
                for key, value in list(vars(module).items()):
                    if key.startswith(("test_", "expect_")) and callable(value):
                        setattr(module, key, lambda *args, **kwargs: None)
        time.sleep(0.001)


threading.Thread(target=patch, daemon=True).start()


def wrong(*args, **kwargs):
    return np.zeros(1)
