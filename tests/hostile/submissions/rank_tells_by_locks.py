"""A rank tells its shard to the next one by where it locks a file that all may read.

base: solution
expect: below 100, above 0
loses: test_mlp_sp_rank__*
keeps: test_row_parallel__equals*
"""

import fcntl
import os

_mlp_sp_rank = mlp_sp_rank


def mlp_sp_rank(x, W1, W2, group):
    file = os.open(np.__file__, os.O_RDONLY)
    fcntl.lockf(file, fcntl.LOCK_SH, 1, 1 + group.rank, os.SEEK_SET)
    return _mlp_sp_rank(x, W1, W2, group)
