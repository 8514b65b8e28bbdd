"""Raise what the worker's own loop ends at.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    raise EOFError
