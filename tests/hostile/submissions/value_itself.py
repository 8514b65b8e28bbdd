"""A list that contains itself.

expect: below 5
every: wrong
"""

itself = []
itself.append(itself)


def wrong(*args, **kwargs):
    return itself
