"""An assertion error in the words of a pass.

expect: below 5
outcome: failed
"""

def wrong(*args, **kwargs):
    raise AssertionError('')


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
