"""Die by a signal in every call.

expect: below 5
every: wrong
outcome: crashed
"""

import os


def wrong(*args, **kwargs):
    os.abort()
