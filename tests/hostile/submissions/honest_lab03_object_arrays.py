"""Keeps exact numbers in arrays of objects.

lab: lab-03
base: solution
expect: 100
"""

from fractions import Fraction

import numpy as np

_equation = equation


def equation(point, protocol):
    return np.array([Fraction(factor) for factor in _equation(point, protocol)])
