"""Honest, with warnings on every call.

base: solution
expect: 100
"""

import warnings

warnings.simplefilter("always")
_shard_size = shard_size


def shard_size(*args):
    warnings.warn("are you sure?", DeprecationWarning, stacklevel=2)
    return _shard_size(*args)
