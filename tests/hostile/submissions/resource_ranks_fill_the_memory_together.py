"""Each rank keeps less than a submission may have; all of them together keep more.

base: solution
expect: below 100, above 0
outcome: memory
loses: test_embedding_rank__*
keeps: test_row_parallel__*
"""

import time

_kept = []
_embedding_rank = embedding_rank


def embedding_rank(token_ids, E, group):
    if group.size == 4 and not _kept:
        _kept.append(np.ones(13 << 20))
        time.sleep(0.2)
    return _embedding_rank(token_ids, E, group)
