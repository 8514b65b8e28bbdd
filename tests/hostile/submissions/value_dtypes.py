"""Arrays of dtypes that no lab uses.

expect: below 5
every: wrong
"""

import numpy as np


def wrong(*args, **kwargs):
    return np.array(['5'], dtype='datetime64[Y]') if len(args) == 3 else np.zeros(3, dtype='f4,i8')
