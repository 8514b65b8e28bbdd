"""Send an array whose shape is not its size.

expect: below 5
outcome: protocol
"""

import numpy as np
import os
import struct

try:
    body = b"a" + struct.pack("<BB2Q", 11, 2, 2**63, 2) + b"x" * 64
    os.write(3, struct.pack("<I", len(body)) + body)
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
