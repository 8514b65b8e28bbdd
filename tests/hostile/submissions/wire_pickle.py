"""Send a pickle that would run code where it is opened.

expect: below 5
every: wrong
outcome: protocol
"""

import numpy as np
import os
import pickle


class Run:
    def __reduce__(self):
        return os.system, ("touch /tmp/forged",)


try:
    data = pickle.dumps(Run())
    os.write(3, len(data).to_bytes(4, "little") + data)
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
