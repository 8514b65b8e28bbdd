"""Arrays of dtypes that no lab uses.

expect: below 5
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.array(['5'], dtype='datetime64[Y]') if len(args) == 3 else np.zeros(3, dtype='f4,i8')


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
