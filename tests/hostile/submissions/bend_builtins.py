"""Replace isinstance, len, abs, type and print for everybody in the process.

expect: below 5
every: wrong
"""

import builtins
import fractions
import operator


class Always(type):
    def __instancecheck__(cls, value):
        return True


for name in ("isinstance", "issubclass", "callable", "all", "any"):
    setattr(builtins, name, lambda *args: True)
builtins.abs = builtins.max = builtins.sum = lambda *args, **kwargs: 0
fractions.Fraction.__eq__ = lambda self, other: True
AssertionError.__init__ = lambda self, *args: None


def wrong(*args, **kwargs):
    return 0
