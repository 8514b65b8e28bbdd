"""Declare the test an expected failure.

expect: below 5
every: wrong
"""

try:
    import pytest
except ImportError:
    pytest = None


def wrong(*args, **kwargs):
    if pytest:
        pytest.xfail('known')
    raise RuntimeError
