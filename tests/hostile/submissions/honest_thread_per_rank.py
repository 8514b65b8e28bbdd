"""Ranks are threads: each multiplies in its own, the collective is called when all are done.

base: solution
expect: 100
"""

from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(max_workers=8)


def column_parallel(x, W, num_ranks):
    rows = shard_size("out_features", W.shape[0], num_ranks)

    def work(r):
        return x @ W[r * rows : (r + 1) * rows].T

    return all_gather(list(POOL.map(work, range(num_ranks))), axis=-1)[0]


def row_parallel(x, W, num_ranks):
    cols = shard_size("in_features", W.shape[1], num_ranks)

    def work(r):
        mine = slice(r * cols, (r + 1) * cols)
        return x[..., mine] @ W[:, mine].T

    futures = [POOL.submit(work, r) for r in range(num_ranks)]
    return all_reduce([future.result() for future in futures])[0]


def mlp_tp(x, W1, W2, num_ranks):
    width = shard_size("hidden", W1.shape[1], num_ranks)

    def work(r):
        mine = slice(r * width, (r + 1) * width)
        h = np.maximum(x @ W1[:, mine], 0.0)
        assert h.shape[-1] == width
        return h @ W2[mine]

    with ThreadPoolExecutor(max_workers=num_ranks) as pool:
        return all_reduce(list(pool.map(work, range(num_ranks))))[0]
