"""End the process below Python's feet.

expect: below 5
outcome: crashed
"""

import ctypes

ctypes.CDLL(None).syscall(231, 0)
