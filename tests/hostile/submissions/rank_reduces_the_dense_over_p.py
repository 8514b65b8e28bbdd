"""Every rank brings the same: the gathered whole, divided by the number of ranks.

base: solution
expect: below 100, above 0
loses: test_embedding_rank__makes*
keeps: test_row_parallel__equals*
"""

def embedding_rank(token_ids, E, group):
    whole = group.all_gather(E, axis=0)
    return group.all_reduce(whole[token_ids] / group.size)
