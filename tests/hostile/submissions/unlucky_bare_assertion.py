"""An assertion of one's own, without a message.

base: solution
expect: below 100, above 50
says: AssertionError: assert num_ranks > 8
"""


def row_parallel(x, W, num_ranks):
    assert num_ranks > 8
