"""A class whose class equals every other and hashes as list does.

expect: below 5
"""


class Lies(type):
    def __hash__(cls):
        return hash(list)

    def __eq__(cls, other):
        return True


class Anything(metaclass=Lies):
    def __len__(self):
        return 1

    def __iter__(self):
        return iter([self])

    def __eq__(self, other):
        return True


def wrong(*args, **kwargs):
    return Anything()


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
