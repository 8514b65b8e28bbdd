"""Numbers, names and errors are of classes of one's own, each a builtin one.

lab: lab-03
base: solution
expect: 100
"""

import functools
import inspect
from fractions import Fraction


class Share(Fraction):
    pass


class Seconds(float):
    def __str__(self):
        return "some"


class Text(str):
    pass


class Count(int):
    pass


class Uneven(ArithmeticError, ValueError):
    pass


OWN = {str: Text, int: Count, float: Seconds, Fraction: Share}


def _own(value):
    if isinstance(value, dict):
        return {_own(key): _own(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_own, value))
    return OWN[type(value)](value) if type(value) in OWN else value


def _in_own_classes(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        try:
            return _own(function(*args, **kwargs))
        except ValueError as error:
            raise Uneven(str(error)) from None

    return wrapper


for _name, _function in list(globals().items()):
    if inspect.isfunction(_function) and not _name.startswith("_") and _function.__module__ == __name__:
        globals()[_name] = _in_own_classes(_function)
