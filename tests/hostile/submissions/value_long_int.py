"""An integer of a million digits.

expect: below 5
"""

def wrong(*args, **kwargs):
    return 1 << 3_300_000


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
