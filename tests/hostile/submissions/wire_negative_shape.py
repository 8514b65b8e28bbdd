"""Send an array whose shape is not its size.

expect: below 5
every: wrong
outcome: protocol
"""

import numpy as np
import os
import struct

try:
    text = b'{"tuple":["value",{"array":["float64",-2,-4]},null]}'
    body = struct.pack("<I", len(text)) + text + b"x" * 64
    os.write(3, struct.pack("<I", len(body)) + body)
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)
