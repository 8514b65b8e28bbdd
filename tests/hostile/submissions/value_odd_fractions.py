"""Fractions whose parts are no ints, zero and negative.

expect: below 5
"""

from fractions import Fraction


class Equal(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def wrong(*args, **kwargs):
    value = Fraction(1, 2)
    value._numerator, value._denominator = Equal(0), 0
    return value


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
