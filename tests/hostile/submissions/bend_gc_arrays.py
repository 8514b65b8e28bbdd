"""Fill every array of the process with zeros, and return zeros.

expect: below 5
"""

import gc

import numpy as np


def wrong(*args, **kwargs):
    for thing in gc.get_objects():
        if isinstance(thing, dict):
            for value in list(thing.values()):
                if isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind == "f":
                    value[...] = 0
    return np.zeros((5, 48))


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
