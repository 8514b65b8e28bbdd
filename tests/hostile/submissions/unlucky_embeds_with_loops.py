"""Embed token by token.

base: solution
expect: 100
"""


def vocab_parallel_embedding(token_ids, E, num_ranks):
    rows = shard_size("vocab", E.shape[0], num_ranks)
    parts = []
    for r in range(num_ranks):
        part = np.zeros((len(token_ids), E.shape[1]))
        shard = E[r * rows : (r + 1) * rows]
        for i, token in enumerate(token_ids):
            if r * rows <= token < (r + 1) * rows:
                part[i] = shard[token - r * rows]
        parts.append(part)
    return all_reduce(parts)[0]
