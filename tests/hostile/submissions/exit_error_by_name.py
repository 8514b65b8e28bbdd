"""An exception that only calls itself ValueError.

expect: below 5
"""

Fake = type('ValueError', (Exception,), {'__module__': 'builtins'})


def wrong(*args, **kwargs):
    raise Fake('ffn_width 10 4 in_features 14 num_ranks')


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
