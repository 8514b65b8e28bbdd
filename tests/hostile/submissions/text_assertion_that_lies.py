"""An assertion error in the words of a pass.

expect: below 5
every: wrong
outcome: failed
"""

def wrong(*args, **kwargs):
    raise AssertionError('')
