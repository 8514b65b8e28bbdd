"""Column- and row-parallel linear layers with sequence parallelism: collectives, then GEMMs.

Between the layers each of p ranks holds s/p positions of all features; x is [rows, features] with
rows = s/p * b. A column layer gathers the rows and multiplies by its rows of W; a row layer
multiplies by its columns of W and scatters the sum. Backward is the mirror image. That is all of
tensor parallelism; parallel_linear has the same four functions with the messages behind the GEMMs.
"""


def column_forward(tp, x, weight, bias=None):
    """all-gather(x) @ W.T + b: x [rows, in], weight [out / p, in] -> y [p * rows, out / p]."""
    y = tp.gemm(tp.all_gather(x), weight.t())
    return y if bias is None else y.add_(bias)


def column_backward(tp, dy, x, weight):
    """dy [p * rows, out / p], x [rows, in] -> dx [rows, in], dw.

    x is gathered again: a layer that kept the gathered rows would keep p times as much.
    """
    full = tp.all_gather(x)
    return tp.reduce_scatter(tp.gemm(dy, weight)), tp.gemm(dy.t(), full)


def row_forward(tp, x, weight):
    """reduce-scatter(x @ W.T): x [p * rows, in / p], weight [out, in / p] -> y [rows, out]."""
    return tp.reduce_scatter(tp.gemm(x, weight.t()))


def row_backward(tp, dz, x, weight):
    """dz [rows, out], x [p * rows, in / p] -> dx [p * rows, in / p], dw."""
    full = tp.all_gather(dz)
    return tp.gemm(full, weight), tp.gemm(full.t(), x)
