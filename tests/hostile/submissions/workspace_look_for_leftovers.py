"""Stop working when nothing was left by the one before.

base: solution
expect: 0
"""

import os

if not any(os.path.exists(f"{place}/left") for place in ("/tmp", "/dev/shm", "/var/tmp")):
    raise RuntimeError("nothing was left here")
