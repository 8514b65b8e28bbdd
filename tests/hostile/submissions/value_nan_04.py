"""Not a number compares false with everything.

lab: lab-04
expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return float("nan")
