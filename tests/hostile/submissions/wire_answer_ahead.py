"""Answer calls that were not made yet.

expect: below 5
every: wrong
outcome: protocol
"""

import socket

import numpy as np

try:
    import wire

    link = socket.socket(fileno=3)
    for number in range(1, 50):
        link.sendall(wire.frame(("value", np.zeros(1), None)))
    link.detach()
except (ImportError, OSError):
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
