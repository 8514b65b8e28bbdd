"""Errors whose text looks like one of the grader's own: they cost what they raise in, nothing else.

base: solution
expect: 92
loses: test_legal_tp_sizes_*
keeps: test_row_parallel_*
says: Timeout (>1.2.3s)
"""


def legal_tp_sizes(*args):
    raise ValueError("Timeout (>1.2.3s) from pytest-timeout. f did not finish within 10 s, not run here: x")
