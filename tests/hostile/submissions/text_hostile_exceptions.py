"""Exceptions with groups, notes, causes and texts that are traps.

expect: below 5
every: wrong
"""

import itertools


class Trap(Exception):
    def __str__(self):
        return Text("12")

    args = property(lambda self: 1 / 0)
    __notes__ = property(lambda self: [Text()] * 10**9)
    __cause__ = property(lambda self: self)


class Text(str):
    def encode(self, *args):
        raise SystemExit(0)

    def __getitem__(self, index):
        while True:
            pass

    def split(self, *args):
        return ["\x1b[2J"] * 10**7


def groups():
    group = ExceptionGroup("g", [ValueError(10)])
    for _ in range(2000):
        group = ExceptionGroup("g" * 100, [group])
    yield group
    error = ValueError("12")
    for i in range(5000):
        error.add_note("note" * 100)
    yield error
    yield Trap(1)
    yield BaseExceptionGroup("b", [KeyboardInterrupt()])
    yield StopAsyncIteration(1)
    yield AssertionError("\nassert ")
    yield AssertionError("\u200b\u202e")
    yield AssertionError("\x00")
    yield UnicodeDecodeError("utf-8", b"x" * 10**6, 0, 1, "y" * 10**6)
    yield OSError(1, "two", "three", 4, "five")
    yield SyntaxError("msg", ("starter.py", "line", -1, None))
    yield GeneratorExit()
    yield SystemError("error return without exception set")


errors = itertools.cycle(range(13))


def wrong(*args, **kwargs):
    n = next(errors)
    raise list(itertools.islice(groups(), n, n + 1))[0]
