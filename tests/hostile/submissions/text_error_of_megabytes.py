"""An error whose message is six megabytes of short words.

expect: below 5
every: wrong
"""

import sys

worker = sys.modules.get("worker")
if worker:
    worker.MAX_TEXT = 1 << 30
TEXT = "ab " * 2_000_000


def wrong(*args, **kwargs):
    raise TypeError(TEXT)
