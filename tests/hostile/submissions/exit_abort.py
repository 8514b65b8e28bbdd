"""Die by a signal in every call.

expect: below 5
outcome: crashed
"""

import os


def wrong(*args, **kwargs):
    os.abort()


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
