"""Ask for eight terabytes at once.

expect: below 5
live: no
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.ones(10**12)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
