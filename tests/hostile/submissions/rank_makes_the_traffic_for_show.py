"""The collectives that a rank owes, with its own numbers, and another result returned.

base: solution
expect: below 100, above 0
loses: test_mlp_sp_rank__gives*
keeps: test_row_parallel__equals*
"""

def mlp_sp_rank(x, W1, W2, group):
    whole = group.all_gather(x, axis=0)
    mine = np.maximum(whole @ W1, 0) @ W2
    group.reduce_scatter(mine, axis=0)
    return np.split(mine, group.size)[group.rank]
