"""Containers of classes of their own, whose methods lie, exit and never end.

expect: below 5
every: wrong
"""

import collections


class Lies(dict):
    def __iter__(self):
        while True:
            yield 1

    def items(self):
        raise SystemExit(0)

    def keys(self):
        return self

    def __len__(self):
        return -1


class List(list):
    def __iter__(self):
        raise KeyboardInterrupt

    def __len__(self):
        return 1 << 62


Point = collections.namedtuple("Point", "x")


def wrong(*args, **kwargs):
    value = List([Lies({"a": Point(1)}), collections.defaultdict(list)])
    list.append(value, value)
    return value
