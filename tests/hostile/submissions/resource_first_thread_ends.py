"""The main thread ends, another goes on and allocates: it is killed before it can.

expect: 0
outcome: crashed
"""

import ctypes
import mmap
import threading
import time


def bomb():
    keep = []
    time.sleep(0.1)
    while True:
        m = mmap.mmap(-1, 16 << 20)
        for i in range(0, 16 << 20, 4096):
            m[i] = 1
        keep.append(m)


threading.Thread(target=bomb).start()
ctypes.CDLL(None).syscall(60, 0)
