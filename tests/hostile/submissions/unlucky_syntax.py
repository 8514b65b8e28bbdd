"""A parenthesis that is never closed.

expect: below 5
says: line
"""

def row_parallel(x, W, num_ranks:
    return x @ W.T
