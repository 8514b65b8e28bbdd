"""Lists nested ten thousand deep.

expect: below 5
"""

deep = []
for _ in range(10_000):
    deep = [deep]


def wrong(*args, **kwargs):
    return deep


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
