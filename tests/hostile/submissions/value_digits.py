"""Ints of twelve hundred digits, and of millions.

base: starter
expect: 0
"""

import sys

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


def legal_tp_sizes(*args):
    return [(1 << 4000) + i for i in range(30_000)]
