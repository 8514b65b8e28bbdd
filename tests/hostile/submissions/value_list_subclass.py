"""A list that equals every list.

expect: below 5
every: wrong
"""

class Any(list):
    def __eq__(self, other):
        return True

    def __len__(self):
        return 6


def wrong(*args, **kwargs):
    return Any([1, 2, 4])
