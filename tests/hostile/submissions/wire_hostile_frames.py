"""Answers that are no values: too deep, too long, of lying shapes, of odd tags, of NaN and 1e999.

expect: below 5
every: wrong
"""

import itertools
import random

import __main__

LINES = [
    b"[" * 100_000,
    b'["value", {"array": ["float64", -1, 3]}, null, ""]',
    b'["value", {"array": ["object", 1]}, null, ""]',
    b'["value", {"array": ["float64", 1099511627776]}, null, ""]',
    b'["value", {"fraction": [1, 0]}, null, ""]',
    b'["value", {"tuple": 3, "dict": []}, null, ""]',
    b'["value", {"dict": [[{"list": []}, 1]]}, null, ""]',
    b'["value", 1e999, null, ""]',
    b'["value", NaN, {"dict": []}, "\\ud800"]',
    b'["raised", "__import__", "os", -5, ""]',
    b'["raised", "SystemExit", "0", null, ""]',
    b'["collective", "record", {"tuple": []}, {"dict": []}]',
    b'["group", "__init__", 1, 2]',
    b"\xff\xfe",
    b"9" * 100_000,
]
AFTER = [b"0 ", b"0 ", b"0 ", b"-1 ", b"99999999999 ", b"", b"0"]
honest, chance, answers = __main__.wire.line_of, random.SystemRandom(), itertools.count()


def line_of(message):
    """What says that the file is loaded goes through; each answer then is another frame."""
    if not next(answers):
        return honest(message)
    return chance.choice(AFTER) + chance.choice(LINES) + b"\n"


__main__.wire.line_of = line_of


def wrong(*args, **kwargs):
    return 1
