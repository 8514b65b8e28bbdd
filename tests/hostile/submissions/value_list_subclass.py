"""A list that equals every list.

expect: below 5
"""

class Any(list):
    def __eq__(self, other):
        return True

    def __len__(self):
        return 6


def wrong(*args, **kwargs):
    return Any([1, 2, 4])


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
