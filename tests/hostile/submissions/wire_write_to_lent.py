"""Write into the grader's own arrays by every way there is.

base: solution
expect: 100
"""

_row = row_parallel


def row_parallel(x, W, num_ranks):
    if type(x) is not np.ndarray:
        ways = (
            lambda: W.__setitem__(Ellipsis, 0),
            lambda: W[0:3].__setitem__(0, 0),
            lambda: W.T.__setitem__(slice(None), 0),
            lambda: np.multiply(W, 0, out=W),
            lambda: W._ask("ufunc", "multiply", "__call__", (W, 0), {"out": W}),
            lambda: W._ask("ufunc", "multiply", "__call__", (W, 0), {"out": (W.reshape(-1),)}),
            lambda: W._ask("method", W, "clip", (0, 0), {"out": W}),
            lambda: W._ask("function", "clip", (W, 0, 0), {"out": W.ravel()}),
            lambda: W._ask("method", W, "sum", (), {"axis": 0, "out": x[0]}),
            lambda: W._ask("setitem", W.swapaxes(0, 1), 0, 0),
            lambda: np.copyto(W, 0),
            lambda: np.put(W, [0], [0]),
        )
        for way in ways:
            try:
                way()
            except Exception:
                pass
    return _row(x, W, num_ranks)
