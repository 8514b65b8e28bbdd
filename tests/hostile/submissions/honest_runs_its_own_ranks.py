"""row_parallel as ranks of one's own, with collectives.run_ranks.

base: solution
expect: 100
"""

import collectives


def _rank(x, W, group):
    return group.all_reduce(x @ W.T)


_whole = row_parallel


def row_parallel(x, W, num_ranks):
    if W.shape[1] % num_ranks or num_ranks < 2:
        return _whole(x, W, num_ranks)
    parts = zip(np.split(x, num_ranks, axis=-1), np.split(W, num_ranks, axis=1))
    return collectives.run_ranks(_rank, list(parts))[0]
