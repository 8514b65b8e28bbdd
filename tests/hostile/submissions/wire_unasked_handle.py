"""Return an array of the grader's that was never given.

expect: below 5
"""

try:
    import wire

    def wrong(*args, **kwargs):
        return wire.Handle(7)
except ImportError:

    def wrong(*args, **kwargs):
        return None


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
