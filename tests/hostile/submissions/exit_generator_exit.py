"""Exceptions that end generators and loops quietly.

expect: below 5
"""

import itertools

kinds = itertools.cycle([StopIteration, GeneratorExit, StopAsyncIteration])


def wrong(*args, **kwargs):
    raise next(kinds)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
