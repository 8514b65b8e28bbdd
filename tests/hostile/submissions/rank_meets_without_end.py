"""Ranks that meet again and again.

base: solution
expect: below 100, above 0
loses: test_attention_rank__*
keeps: test_row_parallel__equals*
"""

def attention_rank(x, Wq, Wk, Wv, Wo, head_dim, group):
    while True:
        group.all_reduce(np.zeros(1000))
