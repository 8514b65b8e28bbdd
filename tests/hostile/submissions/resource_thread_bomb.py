"""Ten thousand threads.

expect: below 5
live: no
"""

import numpy as np
import threading
import time

for _ in range(10_000):
    try:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except Exception:
        pass


def wrong(*args, **kwargs):
    return np.zeros(1)


shard_size = column_parallel = row_parallel = mlp_tp = legal_tp_sizes = wrong
attention_tp = vocab_parallel_embedding = mlp_tp_sequence_parallel = wrong
