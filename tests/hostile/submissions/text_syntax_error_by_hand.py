"""A syntax error whose line is no number.

expect: 0
outcome: protocol
"""

error = SyntaxError("m" * 100000)
error.lineno, error.msg = "\x1b[2J" * 1000, ["not", "text"]
raise error


def wrong():
    pass


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
