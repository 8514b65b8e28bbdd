"""Calls that the filter refuses, under both of their numbers.

expect: below 5
"""

import numpy as np
import ctypes

LIBC = ctypes.CDLL(None)
for number in (101, 165, 272, 310, 321, 323, 425, 59, 41, 56, 57, 435):
    if number in (56, 57, 435, 59):
        continue
    LIBC.syscall(number, 0, 0, 0, 0, 0)


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
