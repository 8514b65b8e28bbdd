"""Kill the grader, and everything else.

expect: below 5
"""

import numpy as np
import os
import signal

for pid in (os.getppid(), -1, 1):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
