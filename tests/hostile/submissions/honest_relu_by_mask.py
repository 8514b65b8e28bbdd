"""relu as h * (h > 0), as (h + |h|) / 2 and in place.

base: solution
expect: 100
"""


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    partials = []
    for r in range(num_ranks):
        mine = slice(r * width, (r + 1) * width)
        h = x @ W1[:, mine]
        partials.append((h * (h > 0)) @ W2[mine])
    return all_reduce(partials)[0]
