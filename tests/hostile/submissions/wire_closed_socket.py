"""Close everything that is open.

expect: below 5
outcome: crashed
"""

import numpy as np
import os
import sys

if "_pytest" not in sys.modules and "unittest" not in sys.modules:
    os.closerange(3, 256)


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
