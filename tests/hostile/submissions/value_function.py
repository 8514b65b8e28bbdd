"""A function instead of a value.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return lambda *args: True
