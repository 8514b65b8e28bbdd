"""Ask for operations on the grader's arrays that are not offered.

base: solution
expect: below 100, above 0
loses: test_no_rank_multiplies_*
"""

column = column_parallel


def column_parallel(x, W, num_ranks):
    if type(x) is not np.ndarray:
        for name in ("__class__", "__reduce__", "tofile", "dump", "tobytes", "base", "ctypes", "data"):
            try:
                leaked = x._link.ask("array", "attribute", (x, name), {})
            except ValueError:
                continue
            return leaked
        x._link.ask("array", "function", ("load", ("/etc/passwd",), {}), {})
    return column(x, W, num_ranks)
