"""Processes that start processes.

expect: below 5
live: no
"""

import numpy as np
import os

for _ in range(2000):
    try:
        os.fork()
    except OSError:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
