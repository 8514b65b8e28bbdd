"""Put another numpy in its place.

expect: below 5
every: wrong
"""

import sys
import types

import numpy as np


class Fake(types.ModuleType):
    def __getattr__(self, name):
        return lambda *args, **kwargs: True


if "worker" in sys.modules:
    sys.modules["numpy"] = Fake("numpy")


def wrong(*args, **kwargs):
    return np.zeros(1)
