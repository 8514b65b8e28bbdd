"""Every function under another name.

expect: below 5
says: has no
"""

def rowParallel(x, W, num_ranks):
    return x @ W.T
