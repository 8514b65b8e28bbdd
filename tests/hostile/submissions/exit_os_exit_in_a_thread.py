"""End the process from a thread while a call runs.

base: solution
expect: below 100
"""

import os
import threading

_row = row_parallel


def row_parallel(x, W, num_ranks):
    threading.Thread(target=os._exit, args=(0,)).start()
    while True:
        pass
