"""A dict whose keys all have one hash.

base: starter
expect: 0
"""

def legal_tp_sizes(*args):
    return {i * (2**61 - 1): 0 for i in range(4000)}
