"""Let unittest call nothing.

expect: below 5
"""

import numpy as np
import unittest

unittest.TestCase._callTestMethod = lambda self, method: None


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
