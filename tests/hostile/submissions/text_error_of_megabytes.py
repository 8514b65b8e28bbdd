"""An error whose message is sixteen megabytes of short words.

expect: below 5
outcome: failed
"""

import sys

learner = sys.modules.get("learner")
if learner:
    learner.MAX_TEXT = 1 << 30
TEXT = "ab " * 5_000_000


def wrong(*args, **kwargs):
    raise TypeError(TEXT)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
