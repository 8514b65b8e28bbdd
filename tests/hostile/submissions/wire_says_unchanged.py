"""Hide from the grader that every argument was overwritten.

base: solution
expect: below 100, above 0
loses: test_row_parallel_*
"""

import __main__

__main__.Worker.changed = lambda *args: None
_row = row_parallel


def row_parallel(x, W, num_ranks):
    x *= 0.0
    W *= 0.0
    return _row(x, W, num_ranks)
