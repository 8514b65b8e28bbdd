"""Let pytest's functions do nothing when run.

expect: below 5
"""

import numpy as np
try:
    import _pytest.python

    _pytest.python.Function.runtest = lambda self: None
except ImportError:
    pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
