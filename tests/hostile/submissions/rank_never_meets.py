"""One rank waits for ever, the others go home.

base: solution
expect: below 100, above 0
loses: test_attention_rank__*
keeps: test_row_parallel__equals*
ends: no
"""

def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    return group.all_reduce(x) if group.rank else x
