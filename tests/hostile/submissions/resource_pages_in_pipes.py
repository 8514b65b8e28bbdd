"""Leave pages in pipes, where no process's size shows them: refused, and all else goes on.

base: solution
expect: 100
"""

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
READ, WRITE = os.pipe()
NOT_PERMITTED = 1


def errno_of(call, *arguments):
    return ctypes.get_errno() if getattr(LIBC, call)(*arguments) < 0 else 0


assert errno_of("vmsplice", WRITE, ctypes.create_string_buffer(16), 1, 0) == NOT_PERMITTED
assert errno_of("tee", READ, WRITE, 1, 2) == NOT_PERMITTED
assert errno_of("splice", READ, None, WRITE, None, 1, 2) == NOT_PERMITTED
assert errno_of("fcntl", WRITE, 1031, 1 << 20) == NOT_PERMITTED
