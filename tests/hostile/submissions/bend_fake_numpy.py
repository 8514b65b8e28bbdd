"""Put another numpy in its place.

expect: below 5
"""

import sys
import types

import numpy as np


class Fake(types.ModuleType):
    def __getattr__(self, name):
        return lambda *args, **kwargs: True


if "learner" in sys.modules:
    sys.modules["numpy"] = Fake("numpy")


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
