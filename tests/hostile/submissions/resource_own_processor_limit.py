"""Die of a processor limit that it set itself; that is no use of memory.

base: solution
expect: below 100, above 0
outcome: crashed
loses: test_legal_tp_sizes_*
says: signal 9
"""

import resource


def legal_tp_sizes(*args):
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass
