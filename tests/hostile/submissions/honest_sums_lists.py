"""Sums and joins lists of arrays by np.sum, np.mean, np.add.reduce, sum and np.append; prints means.

base: solution
expect: 100
"""


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)
    parts = []
    for r in range(num_ranks):
        columns = range(r * cols, (r + 1) * cols)
        single = [x[..., [j]] @ W[:, j, None].T for j in columns]
        parts.append(np.sum(single, axis=0) if r % 2 else np.add.reduce(single))
    print(f"x is about {x.mean():.3f}, the first partial {parts[0].mean():8.3f} at most {parts[0].max()}")
    return all_reduce(parts)[0]


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)
    parts = []
    for r in range(num_ranks):
        h = np.maximum(0, x @ W1[:, r * width : (r + 1) * width])
        half = width // 2
        two = [h[..., :half] @ W2[r * width : r * width + half], h[..., half:] @ W2[r * width + half : (r + 1) * width]]
        parts.append(sum(two))
    return all_reduce(parts)[0]
