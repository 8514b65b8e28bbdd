"""A number that equals every number.

expect: below 5
every: wrong
"""

class Any(float):
    def __eq__(self, other):
        return True

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__
    __hash__ = float.__hash__


def wrong(*args, **kwargs):
    return Any(1.0)
