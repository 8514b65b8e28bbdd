"""Integers as long as the wire allows.

lab: lab-04
expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return 1 << 4000
