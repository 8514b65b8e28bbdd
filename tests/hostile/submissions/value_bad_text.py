"""Text that is not Unicode.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return '\ud800\udfff' * 10
