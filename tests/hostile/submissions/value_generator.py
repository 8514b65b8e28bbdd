"""A result that is made only when looked at.

expect: below 5
"""

def wrong(*args, **kwargs):
    return (x for x in (1, 2, 4))


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
