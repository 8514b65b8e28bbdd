"""Leave files that Python and pytest load by themselves.

expect: below 5
every: wrong
"""

import numpy as np
import site
import sys

TEXT = "import os; os._exit(0)\n"
for folder in ["/tmp", ".", "..", *site.getsitepackages(), *sys.path]:
    for name in ("sitecustomize.py", "usercustomize.py", "conftest.py", "numpy.py", "evil.pth"):
        if folder not in (".", "..") and "_pytest" in sys.modules:
            continue
        try:
            open(f"{folder}/{name}", "w").write(TEXT)
        except OSError:
            pass


def wrong(*args, **kwargs):
    return np.zeros(1)
