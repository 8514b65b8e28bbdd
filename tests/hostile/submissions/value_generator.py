"""A result that is made only when looked at.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return (x for x in (1, 2, 4))
