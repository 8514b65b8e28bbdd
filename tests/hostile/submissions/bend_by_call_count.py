"""Right for as many calls as the published checks make, then wrong.

base: solution
expect: below 100, above 0
loses: test_row_parallel__makes*
keeps: test_column_parallel_*
"""

_calls = [0]
_row = row_parallel


def row_parallel(x, W, num_ranks):
    _calls[0] += 1
    y = _row(x, W, num_ranks)
    return y if _calls[0] < 30 else y * 0
