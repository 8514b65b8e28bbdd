"""Well-formed frames on every descriptor, and the wire as standard output.

expect: below 5
every: wrong
"""

import os
import sys

wire = sys.modules.get("wire")
frames = b"".join(wire.frame(("value", 12, None)) for n in range(300)) if wire else b""
for descriptor in range(0, 256):
    try:
        os.set_blocking(descriptor, False)
        os.write(descriptor, frames)
    except OSError:
        pass
try:
    os.dup2(3, 1)
    os.dup2(3, 2)
except OSError:
    pass
print("hello", flush=True)


def wrong(*args, **kwargs):
    print("world", flush=True)
    return 12
