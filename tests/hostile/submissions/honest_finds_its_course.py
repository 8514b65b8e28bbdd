"""Goes from its own file to the course's folder, and says in many lines what it refuses.

lab: lab-04
base: solution
expect: 100
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))
_replay = replay


def replay(order, forward_ticks=1, backward_ticks=2):
    try:
        return _replay(order, forward_ticks, backward_ticks)
    except ValueError as error:
        ticks = [f"tick {tick}: nobody can move" for tick in range(100)]
        raise ValueError("\n".join([*ticks, str(error)])) from None


def bubble_fraction(p, m):
    require(p=p, m=m)
    p, m = np.int64(p), np.int64(m)
    return Fraction(p - 1, p + m - 1)


import numpy as np  # noqa: E402
