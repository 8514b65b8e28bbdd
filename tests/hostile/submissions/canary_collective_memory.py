"""Ask the judge's collectives for arrays that nobody filled, and return them.

expect: below 5
every: wrong
"""

import collectives
import numpy as np


def wrong(*args, **kwargs):
    shapes = [(0, 4), (4, 0), (1, 1)]
    return [collectives.all_gather([np.empty(shape)] * 2, axis=0)[0] for shape in shapes]
