"""Skip the test from inside the function under test.

expect: below 5
every: wrong
"""

try:
    import pytest
except ImportError:
    pytest = None


def wrong(*args, **kwargs):
    if pytest:
        pytest.skip('not today')
    raise RuntimeError('no pytest here')
