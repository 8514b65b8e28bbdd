"""A dict that has every key one may ask for.

lab: lab-04
expect: below 5
every: wrong
"""

import collections


class All(collections.defaultdict):
    def __contains__(self, key):
        return True


def wrong(*args, **kwargs):
    return All(lambda: All(int))
