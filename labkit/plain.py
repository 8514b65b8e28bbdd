"""Plain values: whether two agree."""

import math
from fractions import Fraction

import numpy as np


def agree(one, other, tolerance) -> bool:
    """Equal plain values: exact ones exactly, an int like the Fraction; floats relatively."""
    one, other = _scalar(one), _scalar(other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
            return False
        if one.dtype.kind not in "fc":
            return bool((one == other).all())
        scale = tolerance * float(np.abs(other).max(initial=0.0))
        return bool(np.allclose(one, other, rtol=tolerance, atol=scale, equal_nan=True))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(agree(a, b, tolerance) for a, b in pairs)
    if isinstance(one, dict) and isinstance(other, dict):
        alike = one.keys() == other.keys()
        return alike and all(agree(one[key], other[key], tolerance) for key in one)
    kinds = {type(one), type(other)}
    if kinds <= {int, Fraction}:
        return one == other
    if kinds <= {int, float}:
        return math.isclose(one, other, rel_tol=tolerance) or one != one and other != other
    return len(kinds) == 1 and not isinstance(one, np.ndarray) and one == other


def _scalar(value):
    single = isinstance(value, np.generic) or isinstance(value, np.ndarray) and value.ndim == 0
    return value.item() if single else value
