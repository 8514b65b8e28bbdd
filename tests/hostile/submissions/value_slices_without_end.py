"""Slices whose bounds are objects.

expect: below 5
every: wrong
"""

class Bound(int):
    def __index__(self):
        return 1 << 62


def wrong(*args, **kwargs):
    return [slice(Bound(1), None, Bound(-1)), slice("a", {}, [])]
