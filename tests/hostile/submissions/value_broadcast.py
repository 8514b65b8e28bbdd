"""A terabyte that takes eight bytes.

expect: below 5
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.broadcast_to(0.0, (10**6, 10**6))


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
