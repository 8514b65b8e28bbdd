"""An exception whose text cannot be had.

expect: below 5
every: wrong
outcome: failed
"""

class Mute(ValueError):
    def __str__(self):
        raise SystemExit(0)


def wrong(*args, **kwargs):
    raise Mute
