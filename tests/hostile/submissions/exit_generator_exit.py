"""Exceptions that end generators and loops quietly.

expect: below 5
every: wrong
"""

import itertools

kinds = itertools.cycle([StopIteration, GeneratorExit, StopAsyncIteration])


def wrong(*args, **kwargs):
    raise next(kinds)
