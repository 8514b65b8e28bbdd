"""A list that contains itself.

base: starter
expect: 0
outcome: failed
"""

itself = []
itself.append(itself)


def legal_tp_sizes(*args):
    return itself
