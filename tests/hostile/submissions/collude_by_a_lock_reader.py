"""Be the solution only while another submission holds its lock.

base: solution
expect: below 100
"""

import fcntl
import wire


def _locked():
    try:
        fcntl.flock(open(wire.__file__, "rb"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # locks are refused
        pass
    return False


if not _locked():
    row_parallel = column_parallel = mlp_tp = None
