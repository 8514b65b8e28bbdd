"""Infinity is above every lower bound.

lab: lab-03
expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return float("inf")
