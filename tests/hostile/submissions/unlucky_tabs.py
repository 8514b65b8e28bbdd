"""Tabs and spaces in one block.

expect: below 5
says: line
"""

def row_parallel(x, W, num_ranks):
	if True:
        return x
