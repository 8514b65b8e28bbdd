"""Skip by unittest's exception, which pytest honours too.

expect: below 5
"""

import unittest


def wrong(*args, **kwargs):
    raise unittest.SkipTest('not today')


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
