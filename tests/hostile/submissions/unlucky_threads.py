"""Honest, with a helper thread in every call.

base: solution
expect: 100
"""

import threading

_legal = legal_tp_sizes


def legal_tp_sizes(*args):
    found = []
    thread = threading.Thread(target=lambda: found.append(1))
    thread.start()
    thread.join()
    return _legal(*args)
