"""Read address 0.

expect: below 5
every: wrong
"""

import ctypes


def wrong(*args, **kwargs):
    ctypes.string_at(0)
