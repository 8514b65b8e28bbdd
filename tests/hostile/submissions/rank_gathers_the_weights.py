"""A rank gathers everybody's weights, and computes alone: right numbers, too many bytes.

base: solution
expect: below 100, above 0
loses: test_mlp_sp_rank__sends*
keeps: test_row_parallel__equals*
"""

def mlp_sp_rank(x, W1, W2, group):
    x, W1, W2 = group.all_gather(x, axis=0), group.all_gather(W1, axis=1), group.all_gather(W2, axis=0)
    return np.split(np.maximum(x @ W1, 0) @ W2, group.size)[group.rank]
