"""One rank ends its process while the others wait.

base: solution
expect: below 100, above 0
loses: test_attention_rank__*
keeps: test_row_parallel__equals*
"""

import os


def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    if group.rank == group.size - 1:
        os._exit(0)
    return group.all_reduce(x)
