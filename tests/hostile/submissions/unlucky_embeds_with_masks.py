"""Embed into zeros, by a mask.

base: solution
expect: 100
"""


def vocab_parallel_embedding(token_ids, E, num_ranks):
    rows = shard_size("vocab", E.shape[0], num_ranks)
    parts = []
    for r in range(num_ranks):
        part = np.zeros((len(token_ids), E.shape[1]))
        local = token_ids - r * rows
        owned = (local >= 0) & (local < rows)
        part[owned] = E[r * rows : (r + 1) * rows][local[owned]]
        parts.append(part)
    return all_reduce(parts)[0]
