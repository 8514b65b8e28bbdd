"""Given to every lab: what an argument must be, and one sentence for whoever gives another.

    @checked(ABOVE_ZERO, tp_size=COUNT, macs=ZERO_OR_MORE)
    def step_s(macs, tokens, flops_per_s, tp_size): ...

A kind is a pair: what the argument must be, in words, and a function that says whether it is.
"""

import functools
import inspect
import math
import numbers
import reprlib


def require(condition, problem):
    """Raise ValueError(problem) unless the condition holds."""
    if not condition:
        raise ValueError(problem)


def must_be(kind, name, value):
    """Raise ValueError, naming argument and value, unless the value is of that kind."""
    words, fits = kind
    require(fits(value), f"{name} must be {words}, not {reprlib.repr(value)}")


def checked(others=None, /, **kinds):
    """Refuse arguments that are not of their kind before the function runs.

    others: the kind of the arguments that are not named; None: they are not looked at.
    """

    def decorate(function):
        names = list(inspect.signature(function).parameters)
        of_name = {name: kind for name in names if (kind := kinds.get(name, others))}

        @functools.wraps(function)
        def check_then_call(*args, **kwargs):
            for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
                if name in of_name:
                    must_be(of_name[name], name, value)
            return function(*args, **kwargs)

        return check_then_call

    return decorate


def is_number(value):
    """Whether it is a real and finite number; True and False are none."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and math.isfinite(value)


COUNT = "a whole number, 1 or more", lambda n: is_number(n) and n >= 1 and n == int(n)
ABOVE_ZERO = "a number above 0", lambda number: is_number(number) and number > 0
ZERO_OR_MORE = "a number, 0 or more", lambda number: is_number(number) and number >= 0
ANYTHING = "anything", lambda value: True
PART = "a part of 1, above 0", lambda number: is_number(number) and 0 < number <= 1
