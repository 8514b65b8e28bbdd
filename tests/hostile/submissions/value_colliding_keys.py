"""A dict whose keys all have one hash.

expect: below 5
every: wrong
"""

def wrong(*args, **kwargs):
    return {i * (2**61 - 1): 0 for i in range(4000)}
