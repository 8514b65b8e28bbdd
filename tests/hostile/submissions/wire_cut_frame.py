"""Announce a frame and never finish it.

expect: below 5
outcome: timeout
live: no
"""

import numpy as np
import os
import time

try:
    os.write(3, b"\x00\x01\x00\x00T")
    time.sleep(30)
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
