"""A fully masked array equals everything.

expect: below 5
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.ma.masked_all((5, 48))


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
