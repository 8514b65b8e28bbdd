"""Eight terabytes that are one number.

expect: below 5
outcome: failed
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.broadcast_to(np.float64(0), (1 << 20, 1 << 20))


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
