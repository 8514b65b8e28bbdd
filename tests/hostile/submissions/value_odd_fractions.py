"""Fractions whose parts are no ints, zero and negative.

expect: below 5
every: wrong
"""

from fractions import Fraction


class Equal(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def wrong(*args, **kwargs):
    value = Fraction(1, 2)
    value._numerator, value._denominator = Equal(0), 0
    return value
