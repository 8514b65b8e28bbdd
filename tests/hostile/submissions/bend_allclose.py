"""Make numpy's comparisons say yes.

expect: below 5
"""

import numpy as np

np.allclose = np.array_equal = np.isclose = lambda *args, **kwargs: True
np.testing.assert_allclose = np.testing.assert_array_equal = lambda *args, **kwargs: None


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
