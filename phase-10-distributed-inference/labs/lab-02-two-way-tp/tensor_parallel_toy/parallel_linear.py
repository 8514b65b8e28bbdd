"""Column- and row-parallel linear layers with sequence parallelism, plain and overlapped.

Between the layers every rank holds its s/p positions: activations are [s/p, b, h]. A column layer
gathers them and multiplies by its rows of W; a row layer multiplies by its columns of W and
scatters the sum. Backward is the mirror image. What the layers keep for backward is sharded too:
the column layer saves its own s/p positions and gathers again, as Megatron does (or keeps what it
gathered).

Inside the functions x is [rows, features], rows = s * b, so that a chunk of positions is a
contiguous block of rows.
"""

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from .schedule import without_messages


def _buffers(tp, own, pieces, empty=torch.Tensor.new_empty):
    """Chunk buffers of a whole tensor: views of `own` for our chunks; `empty` makes the others."""
    rows, features = own.shape
    rest = empty(own, ((tp.size - 1) * rows, features))
    blocks = [*rest[: tp.rank * rows].split(rows), own, *rest[tp.rank * rows :].split(rows)]
    return [chunk for block in blocks if len(block) for chunk in block.split(rows // pieces)]


def _chunks(full, tp, pieces):
    return full.split(full.shape[0] // (tp.size * pieces))


def _multiply(x, matrix, out, bias=None):
    """out = x @ matrix (+ bias), written in place."""
    return torch.mm(x, matrix, out=out) if bias is None else torch.addmm(bias, x, matrix, out=out)


def _summing(total):
    """add(a, b): total += a.T @ b; the first call overwrites, so the buffer need not be zeroed."""
    factor = iter([0])
    return lambda a, b: torch.addmm(total, a.t(), b, beta=next(factor, 1), out=total)


def _gemms(tp, *products):
    """The unoverlapped layer's GEMMs, visible to the recorder."""
    with tp.span("gemm", "all chunks"):
        return [product() for product in products]


def column_forward(tp, x, weight, bias=None, ops=None):
    """all-gather(x) @ W.T + b: x [rows / p, in], weight [out / p, in] -> y [rows, out / p].

    Also returns the gathered x, as a list of chunks.
    """
    y = x.new_empty(x.shape[0] * tp.size, weight.shape[0])
    if not tp.overlap:
        full = tp.all_gather(x)
        _gemms(tp, lambda: _multiply(full, weight.t(), y, bias))
        return y, [full]
    default, pieces = tp.schedule("column_forward", x.shape[0], weight)
    xs, ys = _buffers(tp, x, pieces), _chunks(y, tp, pieces)
    gemm = {"y": lambda c: _multiply(xs[c], weight.t(), ys[c], bias)}
    tp.run(ops or default, gemm, ("x", xs))
    return y, xs


def column_backward(tp, dy, x, weight, ops=None, full=None):
    """dy [rows, out / p], x [rows / p, in] -> dx [rows / p, in] and dw, whole after `finish`.

    x is gathered again, unless `full`, the gathered x, was kept.
    """
    if not tp.overlap:
        full = tp.all_gather(x) if full is None else full
        [partial] = _gemms(tp, lambda: dy @ weight)
        dx = tp.reduce_scatter(partial)
        return dx, *_gemms(tp, lambda: dy.t() @ full)
    default, pieces = tp.schedule("column_backward", x.shape[0], weight)
    dx, dw = torch.empty_like(x), torch.empty_like(weight)
    if full is None:
        xs = _buffers(tp, x, pieces)
    else:
        xs, default = _chunks(full, tp, pieces), without_messages(default, "x")
    dxs = _buffers(tp, dx, pieces, tp.link.empty)
    dys, add_to_dw = _chunks(dy, tp, pieces), _summing(dw)
    gemms = {
        "dx": lambda c: _multiply(dys[c], weight, dxs[c]),
        "dw": lambda c: add_to_dw(dys[c], xs[c]),
    }
    tp.run(ops or default, gemms, ("x", xs), ("dx", dxs))
    return dx, dw


def row_forward(tp, x, weight, ops=None):
    """reduce-scatter(x @ W.T): x [rows, in / p], weight [out, in / p] -> y [rows / p, out]."""
    if not tp.overlap:
        [partial] = _gemms(tp, lambda: x @ weight.t())
        return tp.reduce_scatter(partial)
    rows = x.shape[0] // tp.size
    default, pieces = tp.schedule("row_forward", rows, weight)
    y = x.new_empty(rows, weight.shape[0])
    ys, xs = _buffers(tp, y, pieces, tp.link.empty), _chunks(x, tp, pieces)
    gemm = {"y": lambda c: _multiply(xs[c], weight.t(), ys[c])}
    tp.run(ops or default, gemm, partial=("y", ys))
    return y


def row_backward(tp, dz, x, weight, ops=None):
    """dz [rows / p, out], x [rows, in / p] -> dx [rows, in / p] and dw, whole after `finish`."""
    if not tp.overlap:
        full = tp.all_gather(dz)
        return tuple(_gemms(tp, lambda: full @ weight, lambda: full.t() @ x))
    default, pieces = tp.schedule("row_backward", dz.shape[0], weight)
    dx, dw = torch.empty_like(x), torch.empty_like(weight)
    dzs, add_to_dw = _buffers(tp, dz, pieces), _summing(dw)
    xs, dxs = _chunks(x, tp, pieces), _chunks(dx, tp, pieces)
    gemms = {
        "dx": lambda c: _multiply(dzs[c], weight, dxs[c]),
        "dw": lambda c: add_to_dw(dzs[c], xs[c]),
    }
    tp.run(ops or default, gemms, ("dz", dzs))
    return dx, dw


class _Column(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, tp, keep_gathered=False):
        tp.deferred.forget_failed_backward()
        tp.agree(f"column layer {_describe(x, weight)}")
        ctx.tp, ctx.has_bias = tp, bias is not None
        ctx.weight = weight  # saved tensors come back as copies under a checkpoint
        ctx.shape, ctx.kept = x.shape, keep_gathered
        x = tp.link.reachable(x) if tp.overlap else x  # backward sends it once more
        y, xs = column_forward(tp, x.flatten(0, 1), weight, bias)
        # unless told otherwise our own positions only: 1/p of the gathered input
        ctx.save_for_backward(weight, torch.cat(xs) if keep_gathered else x)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        weight, x = ctx.saved_tensors
        dy, full = dy.contiguous(), None
        if ctx.kept:
            full, x = x, _share(x, ctx.tp)
        dx, dw = column_backward(ctx.tp, dy, x.view(-1, weight.shape[1]), weight, full=full)
        dw = ctx.tp.deferred.deliver(ctx.weight, dw)
        return dx.view(ctx.shape), dw, dy.sum(0) if ctx.has_bias else None, None, None


class _Row(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, tp):
        tp.deferred.forget_failed_backward()
        tp.agree(f"row layer {_describe(x, weight)}")
        ctx.tp, ctx.weight = tp, weight
        ctx.save_for_backward(x, weight)
        return row_forward(tp, x.flatten(0, 1), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, dz):
        x, weight = ctx.saved_tensors
        dx, dw = row_backward(ctx.tp, dz.contiguous(), x.flatten(0, 1), weight)
        return dx.view_as(x), ctx.tp.deferred.deliver(ctx.weight, dw), None


def _share(full, tp, dim=0):
    """This rank's part of `full`, which all ranks hold."""
    if full.shape[dim] % tp.size:
        raise ValueError(
            f"size {full.shape[dim]} of a layer cannot be split over {tp.size} ranks: "
            f"choose a multiple of {tp.size}, or fewer ranks"
        )
    return full.chunk(tp.size, dim)[tp.rank]


def _describe(x, weight):
    return f"{list(x.shape)} x {list(weight.shape)} {str(x.dtype).removeprefix('torch.')}"


class ColumnParallelLinear(nn.Module):
    """y = x @ W.T + b with W's rows split; x [s/p, b, in] -> y [s, b, out/p].

    `parts` are the sizes of fused outputs (queries, keys, values): each is split by itself, and
    all share one all-gather. Every rank draws the whole weight and keeps its slice. `keep_gathered`
    trades memory for messages: backward finds the gathered input instead of gathering it again.
    """

    def __init__(self, in_size, parts, tp, draw, bias=False, keep_gathered=False):
        super().__init__()
        self.tp, self.parts, self.keep_gathered = tp, parts, keep_gathered
        self.weight = nn.Parameter(self.shard(draw(sum(parts), in_size)))
        self.bias = nn.Parameter(self.shard(draw(sum(parts)))) if bias else None

    def shard(self, full):
        """This rank's rows of each part."""
        if self.tp is None:
            return full
        return torch.cat([_share(part, self.tp) for part in full.split(self.parts)])

    def split(self, y):
        """The parts of an output."""
        size = self.tp.size if self.tp else 1
        return y.split([part // size for part in self.parts], dim=-1)

    def forward(self, x):
        if self.tp is None:
            return nn.functional.linear(x, self.weight, self.bias)
        y = _Column.apply(x.contiguous(), self.weight, self.bias, self.tp, self.keep_gathered)
        return y.unflatten(0, (-1, x.shape[1]))


class RowParallelLinear(nn.Module):
    """y = x @ W.T + b with W's columns split; x [s, b, in/p] -> y [s/p, b, out].

    Every rank adds the bias to its own positions, after the sum: once. Each rank therefore sees
    1/p of the bias gradient, as with every replicated parameter (`train.reduce_replicated`).
    """

    def __init__(self, in_size, out_size, tp, draw, bias=False):
        super().__init__()
        self.tp = tp
        self.weight = nn.Parameter(self.shard(draw(out_size, in_size)))
        self.bias = nn.Parameter(draw(out_size)) if bias else None

    def shard(self, full):
        """This rank's columns."""
        if self.tp is None:
            return full
        return _share(full, self.tp, dim=1).contiguous()

    def forward(self, x):
        if self.tp is None:
            return nn.functional.linear(x, self.weight, self.bias)
        if x.shape[0] % self.tp.size:
            raise ValueError(
                f"{x.shape[0]} positions cannot be split over {self.tp.size} ranks: "
                f"choose a multiple of {self.tp.size}"
            )
        y = _Row.apply(x.contiguous(), self.weight, self.tp)
        y = y.unflatten(0, (-1, x.shape[1]))
        return y if self.bias is None else y + self.bias
