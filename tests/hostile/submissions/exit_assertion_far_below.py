"""An assertion without text, on a line that the lab's own file does not have.

expect: below 5
outcome: failed
"""

exec(
    compile("\n" * 5000 + "def wrong(*args, **kwargs):\n    raise AssertionError", __file__, "exec")
)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
