"""Tabs and spaces in one block.

expect: below 5
outcome: failed
says: line
"""

def row_parallel(x, W, num_ranks):
	if True:
        return x
