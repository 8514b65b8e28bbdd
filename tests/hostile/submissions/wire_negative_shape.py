"""Send an array whose shape is not its size.

expect: below 5
every: wrong
outcome: protocol
"""

import numpy as np
import os
import struct

try:
    array = struct.pack("<BB2Q", 11, 2, 2**63, 2) + b"x" * 64
    body = struct.pack("<cI", b"a", len(array)) + array
    os.write(3, struct.pack("<I", len(body)) + body)
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
