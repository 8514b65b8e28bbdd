"""Not a number compares false with everything.

expect: below 5
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.full((5, 48), np.nan)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
