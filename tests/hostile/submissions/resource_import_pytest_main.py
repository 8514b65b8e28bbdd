"""Run pytest inside the sandbox, on oneself.

expect: below 5
every: wrong
"""

import pytest

pytest.main(["-q", __file__, "-p", "no:cacheprovider"])


def wrong(*args, **kwargs):
    return pytest.main(["--version"])
