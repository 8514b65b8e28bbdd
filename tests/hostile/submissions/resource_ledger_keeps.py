"""Let the collectives' ledger keep gigabytes.

base: solution
expect: below 100, above 0
loses: test_row_parallel_*
keeps: test_column_parallel_*
"""

import collectives


def row_parallel(x, W, num_ranks):
    parts = [np.zeros(1 << 17)] * 15
    while True:
        try:
            collectives.all_gather(parts)
        except Exception:
            pass
