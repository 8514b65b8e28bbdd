"""Seeds, print options, errors raised, warnings as errors, recursion limit, all at import.

base: solution
expect: 100
"""

import sys
import warnings

np.random.seed(0)
np.set_printoptions(precision=2, suppress=True, linewidth=200)
np.seterr(all="raise", under="ignore")
warnings.filterwarnings("error")
sys.setrecursionlimit(100_000)


def total(parts):
    return parts[0] if len(parts) == 1 else parts[0] + total(parts[1:])


def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)


_row = row_parallel


def row_parallel(x, W, num_ranks):
    assert depth(20_000) == 20_000
    noise = np.random.standard_normal(3)
    print("row", x.shape, W.shape, noise, file=sys.stderr)
    return _row(x, W, num_ranks)
