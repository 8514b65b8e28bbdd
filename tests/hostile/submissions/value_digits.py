"""Ints of twelve hundred digits, and of millions.

expect: below 5
every: wrong
outcome: failed
"""

import sys

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


def wrong(*args, **kwargs):
    return [(1 << 4000) + i for i in range(30_000)]
