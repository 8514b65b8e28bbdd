"""What one process sets on its standard input, no other one finds there.

base: solution
expect: 100
"""

import fcntl

F_SETSIG, F_GETSIG = 10, 11
assert fcntl.fcntl(0, F_GETSIG) == 0
fcntl.fcntl(0, F_SETSIG, 37)
