"""Point the report at another file.

expect: below 5
every: wrong
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
