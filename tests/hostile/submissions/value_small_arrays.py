"""A list of four hundred thousand small arrays, which takes long to write down.

expect: below 5
"""

import numpy as np


def wrong(*args, **kwargs):
    return [np.full(1, 1 / 3)] * 390_000


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
