"""A thread answers on the wire, again and again, beside the main one.

expect: below 5
every: wrong
"""

import os
import sys
import threading

wire = sys.modules.get("wire")


def answer():
    number = 0
    while True:
        for _ in range(50):
            try:
                os.write(3, wire.frame(("value", 12, None)))
            except Exception:
                pass
        number += 1


if wire:
    for _ in range(3):
        threading.Thread(target=answer, daemon=True).start()


def wrong(*args, **kwargs):
    return 12
