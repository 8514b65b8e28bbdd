"""Import the solution that lies beside the starter.

expect: below 5
every: wrong
"""

import glob
import os
import sys

import numpy as np

os.environ["LAB_IMPL"] = "solution"
places = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "solution.py")]
places += glob.glob("**/lab-01*/solution.py", recursive=True)
for folder in sys.path:
    places.append(os.path.join(folder, "lab-01-tp-sharding-math", "solution.py"))


def wrong(*args, **kwargs):
    return np.zeros(1)

for place in places:
    try:
        exec(compile(open(place).read(), place, "exec"))
        break
    except OSError:
        pass
