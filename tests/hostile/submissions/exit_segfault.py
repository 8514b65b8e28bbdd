"""Read address 0.

expect: below 5
outcome: crashed
"""

import ctypes


def wrong(*args, **kwargs):
    ctypes.string_at(0)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
