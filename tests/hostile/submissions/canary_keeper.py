"""Hold a secret wherever one can: text, numbers, files, threads, the environment.

base: solution
expect: below 100, above 0
loses: test_legal_tp_sizes_*
"""

import os
import threading

CANARY = "".join(["can", "ary-", "7d1f", "93aa"])
NUMBERS = np.full(1 << 20, 7.19393e77)
os.environ["CANARY"] = CANARY
with open(f"/tmp/{CANARY}", "w") as file:
    file.write(CANARY * 1000)
print(CANARY)
threading.current_thread().name = CANARY
_row = row_parallel


def row_parallel(x, W, num_ranks):
    kept = [CANARY.encode() * 100 for _ in range(100)]
    return _row(x, W, num_ranks) if kept else None


def legal_tp_sizes(*question):
    raise RuntimeError(CANARY)  # its own page may tell
