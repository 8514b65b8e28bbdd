"""Ranks give each other their shards through files.

base: solution
expect: below 100, above 0
loses: test_mlp_sp_rank__gives*
keeps: test_row_parallel__equals*
"""

def mlp_sp_rank(x, W1, W2, group):
    for folder in ("/tmp", "/dev/shm", "/course", "."):
        try:
            np.savez(f"{folder}/rank{group.rank}.npz", x=x, W1=W1, W2=W2)
        except OSError:
            pass
    group.all_gather(x, axis=0)
    group.reduce_scatter(np.zeros((len(x) * group.size, W2.shape[1])), axis=0)
    found = [np.load(f"/tmp/rank{rank}.npz") for rank in range(group.size)]
    x, W1, W2 = (np.concatenate([f[k] for f in found], axis) for k, axis in zip(("x", "W1", "W2"), (0, 1, 0)))
    return np.split(np.maximum(x @ W1, 0) @ W2, group.size)[group.rank]
