"""Skip the test from inside the function under test.

expect: below 5
"""

try:
    import pytest
except ImportError:
    pytest = None


def wrong(*args, **kwargs):
    if pytest:
        pytest.skip('not today')
    raise RuntimeError('no pytest here')


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
