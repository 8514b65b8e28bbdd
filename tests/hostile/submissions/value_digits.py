"""Ints of twelve hundred digits, and of millions.

expect: below 5
outcome: failed
"""

import sys

if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)


def wrong(*args, **kwargs):
    return [(1 << 4000) + i for i in range(30_000)]


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
