"""An integer of a million digits.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return 1 << 3_300_000
