"""Thirty threads on every processor, each at full speed.

expect: 0
outcome: failed
"""

import hashlib
import os
import threading

os.sched_setaffinity(0, range(os.cpu_count() or 1))
block = bytes(1 << 24)


def spin():
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    while True:
        hashlib.sha512(block)


for _ in range(28):
    threading.Thread(target=spin, daemon=True).start()
spin()
