"""Change the activations through an iterator, which sees a copy: one sentence says what to write.

base: solution
expect: below 100, above 0
loses: test_no_rank_multiplies_*
keeps: test_row_parallel_*, test_mlp_tp_equals_*
says: write x[...] = value
"""


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    partials = []
    for rank in range(num_ranks):
        h = x @ W1[:, rank * width : (rank + 1) * width]
        with np.nditer(h, op_flags=["readwrite"]) as values:
            for value in values:
                value[...] = max(value, 0.0)
        partials.append(h @ W2[rank * width : (rank + 1) * width])
    return all_reduce(partials)[0]
