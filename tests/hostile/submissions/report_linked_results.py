"""Point the report at another file.

expect: below 5
"""

import numpy as np
import os

for name in ("results.json", "junit.xml", "grades.csv", "gradebook.sqlite"):
    try:
        os.symlink("/etc/passwd", name)
    except OSError:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
