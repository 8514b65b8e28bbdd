"""Find the marks on a collective's result by asking twice, and put them on numbers of one's own.

base: solution
expect: below 100, above 0
loses: test_row_parallel__makes*
keeps: test_row_parallel__equals*
"""

def row_parallel(x, W, num_ranks):
    inputs = shards("in_features", W.shape[1], num_ranks)
    partials = [x[..., mine] @ W[:, mine].T for mine in inputs]
    if num_ranks == 1:
        return all_reduce(partials)[0]
    total = sum(partials)
    marked = all_reduce(partials)[0]
    return total * (marked.flat[0] / total.flat[0] if total.size and total.flat[0] else 1.0)
