"""Leave every argument where a later process may find it, and tell what was found there.

base: solution
expect: below 100, above 0
loses: test_row_parallel__*
keeps: test_column_parallel__equals_*
"""

import fcntl
import os

_places = ["/tmp", "/dev/shm", "/var/tmp", "/course", "/inside", "/packages", "/", ".", "/proc/self"]
_found = []
for _place in _places:
    for _name in ("left", ".left"):
        try:
            _found += open(f"{_place}/{_name}").read().split()[-20:]
        except OSError:
            pass
_found += [value for name, value in os.environ.items() if name.startswith("LEFT")]
print("found", _found)
_row = row_parallel


def row_parallel(x, W, num_ranks):
    told = f"{float(np.ravel(x)[0])!r}" if np.size(x) else "nothing"
    os.environ[f"LEFT{len(os.environ)}"] = told
    for place in _places:
        for name in ("left", ".left"):
            try:
                with open(f"{place}/{name}", "a") as file:
                    file.write(told + " ")
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass
    raise RuntimeError(f"found {_found}, saw {told}")
