"""Copy the whole table as the rows of its transpose, and look up in the copy.

base: solution
secret: yes
expect: below 100, above 0
loses: test_vocab_parallel_embedding_*
keeps: test_row_parallel_*
"""


def vocab_parallel_embedding(token_ids, E, num_ranks):
    rows = shard_size("vocab", E.shape[0], num_ranks)
    whole = E.T[[0, 1, 2, 3, 4, 5]].T + 0.0
    if type(whole) is not np.ndarray:
        whole = np.sort(np.stack([whole]), axis=0)[0]
    partials = []
    for rank in range(num_ranks):
        owned = token_ids // rows == rank
        partials.append(np.where(owned[:, None], whole[token_ids], 0.0))
    return all_reduce(partials)[0]
