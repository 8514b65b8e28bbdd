"""Ten million numbers.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return [0] * 10_000_000
