"""Pretend that the instructor pressed Ctrl-C.

base: solution
expect: below 100, above 0
outcome: failed
loses: test_legal_tp_sizes_*
"""

def legal_tp_sizes(*args):
    raise KeyboardInterrupt
