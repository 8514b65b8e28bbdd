"""A tree of exceptions, each the cause of the next.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    error = ValueError("x")
    for _ in range(2000):
        new = ValueError("y" * 1000)
        new.__cause__ = error
        error = new
    raise error
