"""Leave the solution for the next submission to find.

base: solution
expect: 100
"""

import os

for place in ("/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~/.cache")):
    try:
        os.makedirs(place, exist_ok=True)
        open(f"{place}/left", "w").write("found")
    except OSError:
        pass
