"""Recurse without end.

expect: below 5
every: wrong
outcome: failed
"""

def wrong(*args, **kwargs):
    return wrong(*args)
