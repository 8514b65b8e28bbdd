"""Look for what another submission held: files, the environment, memory that nobody cleared.

expect: below 5
every: wrong
"""

import gc
import os

import numpy as np

WORD = "".join(["can", "ary-", "7d1f"])
FOUND = [os.environ.get("CANARY")]
for folder, _, names in os.walk("/"):
    FOUND += [os.path.join(folder, name) for name in names if WORD in name]
MEMORY = [np.empty(1 << n) for n in range(4, 22)]
FOUND += [float(array.max()) for array in MEMORY if (array == 7.19393e77).any()]
FOUND += [array.tobytes()[:64] for array in MEMORY if WORD.encode() in array.tobytes()]
FOUND += [text for text in gc.get_objects() if isinstance(text, str) and WORD in text]
print(FOUND, [array[:8] for array in MEMORY])


def wrong(*args, **kwargs):
    raise ValueError(f"{FOUND} {np.empty((2, 3, 4))}")
