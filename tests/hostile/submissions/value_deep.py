"""Lists nested ten thousand deep.

expect: below 5
every: wrong
"""

deep = []
for _ in range(10_000):
    deep = [deep]


def wrong(*args, **kwargs):
    return deep
