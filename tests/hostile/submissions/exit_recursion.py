"""Recurse without end.

expect: below 5
outcome: failed
"""

def wrong(*args, **kwargs):
    return wrong(*args)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
