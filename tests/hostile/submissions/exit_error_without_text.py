"""An exception whose text cannot be had.

expect: below 5
outcome: failed
"""

class Mute(ValueError):
    def __str__(self):
        raise SystemExit(0)


def wrong(*args, **kwargs):
    raise Mute


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
