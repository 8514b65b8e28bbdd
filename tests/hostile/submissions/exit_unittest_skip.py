"""Skip by unittest's exception, which pytest honours too.

expect: below 5
every: wrong
"""

import unittest


def wrong(*args, **kwargs):
    raise unittest.SkipTest('not today')
