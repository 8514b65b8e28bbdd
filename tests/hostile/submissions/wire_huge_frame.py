"""Announce four gigabytes.

expect: below 5
outcome: protocol
"""

import numpy as np
import os

try:
    os.write(3, b"\xff\xff\xff\xff")
except OSError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
