"""End pytest's session with status 0.

expect: below 5
every: wrong
"""

try:
    import pytest
except ImportError:
    pytest = None


def wrong(*args, **kwargs):
    if pytest:
        pytest.exit('done', returncode=0)
    raise SystemExit(0)
