"""A dict whose keys all have one hash.

expect: below 5
"""

def wrong(*args, **kwargs):
    return {i * (2**61 - 1): 0 for i in range(4000)}


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
