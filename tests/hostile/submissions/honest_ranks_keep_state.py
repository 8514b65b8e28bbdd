"""A class holds what a rank computes; a cache keyed by the weights' bytes.

base: solution
expect: 100
"""

from functools import lru_cache


class Rank:
    runs = 0

    def __init__(self, group):
        self.group = group
        Rank.runs += 1

    def forward(self, x, W1, W2):
        hidden = np.clip(self.group.all_gather(x, axis=0).dot(W1), 0, None)
        return self.group.reduce_scatter(hidden.dot(W2), axis=0)


@lru_cache(maxsize=None)
def _rows(first, count):
    return range(first, first + count)


def mlp_sp_rank(x, W1, W2, group):
    return Rank(group).forward(x, W1, W2)


def embedding_rank(token_ids, E, group):
    rows = _rows(group.rank * len(E), len(E))
    mask = np.isin(token_ids, rows)
    out = np.zeros((token_ids.size, E.shape[-1]), E.dtype)
    out[mask] = E[token_ids[mask] - rows.start]
    return group.all_reduce(out)
