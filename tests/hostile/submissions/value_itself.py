"""A list that contains itself.

expect: below 5
"""

itself = []
itself.append(itself)


def wrong(*args, **kwargs):
    return itself


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
