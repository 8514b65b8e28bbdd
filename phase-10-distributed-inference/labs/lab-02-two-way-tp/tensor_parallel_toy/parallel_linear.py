"""Column- and row-parallel linear layers whose messages travel behind their GEMMs.

The four functions are those of plain_linear (read that first) with the rows cut into one chunk per
rank: a schedule says in which order a rank multiplies, sends and waits. Activations of the layers
are [s/p, b, h]; inside the functions they are [rows, features], so that a chunk of positions is a
contiguous block of rows.
"""

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from . import plain_linear


def _buffers(tp, own):
    """Chunk buffers of a whole tensor, one per rank; ours is `own`."""
    return [own if rank == tp.rank else torch.empty_like(own) for rank in range(tp.size)]


def _chunks(full, tp):
    return full.split(full.shape[0] // tp.size)


def _multiply(x, matrix, out, bias=None):
    """out = x @ matrix (+ bias), written in place."""
    return torch.mm(x, matrix, out=out) if bias is None else torch.addmm(bias, x, matrix, out=out)


def _summing(total):
    """add(a, b): total += a.T @ b; the first call overwrites, so the buffer need not be zeroed."""
    factor = iter([0])
    return lambda a, b: torch.addmm(total, a.t(), b, beta=next(factor, 1), out=total)


def column_forward(tp, x, weight, bias=None, ops=None):
    """all-gather(x) @ W.T + b: x [rows / p, in], weight [out / p, in] -> y [rows, out / p]."""
    if tp.order == "plain":
        return plain_linear.column_forward(tp, x, weight, bias)
    y = x.new_empty(x.shape[0] * tp.size, weight.shape[0])
    xs, ys = _buffers(tp, x), _chunks(y, tp)
    gemm = {"y": lambda c: _multiply(xs[c], weight.t(), ys[c], bias)}
    tp.run(ops or tp.schedule("column_forward"), gemm, ("x", xs))
    return y


def column_backward(tp, dy, x, weight):
    """dy [rows, out / p], x [rows / p, in] -> dx [rows / p, in] and dw, whole after `finish`."""
    if tp.order == "plain":
        return plain_linear.column_backward(tp, dy, x, weight)
    dx, dw = torch.empty_like(x), torch.empty_like(weight)
    xs, dxs = _buffers(tp, x), _buffers(tp, dx)
    dys, add_to_dw = _chunks(dy, tp), _summing(dw)
    gemms = {
        "dx": lambda c: _multiply(dys[c], weight, dxs[c]),
        "dw": lambda c: add_to_dw(dys[c], xs[c]),
    }
    tp.run(tp.schedule("column_backward"), gemms, ("x", xs), ("dx", dxs))
    return dx, dw


def row_forward(tp, x, weight, ops=None):
    """reduce-scatter(x @ W.T): x [rows, in / p], weight [out, in / p] -> y [rows / p, out]."""
    if tp.order == "plain":
        return plain_linear.row_forward(tp, x, weight)
    y = x.new_empty(x.shape[0] // tp.size, weight.shape[0])
    ys, xs = _buffers(tp, y), _chunks(x, tp)
    gemm = {"y": lambda c: _multiply(xs[c], weight.t(), ys[c])}
    tp.run(ops or tp.schedule("row_forward"), gemm, partial=("y", ys))
    return y


def row_backward(tp, dz, x, weight):
    """dz [rows / p, out], x [rows, in / p] -> dx [rows, in / p] and dw, whole after `finish`."""
    if tp.order == "plain":
        return plain_linear.row_backward(tp, dz, x, weight)
    dx, dw = torch.empty_like(x), torch.empty_like(weight)
    dzs, add_to_dw = _buffers(tp, dz), _summing(dw)
    xs, dxs = _chunks(x, tp), _chunks(dx, tp)
    gemms = {
        "dx": lambda c: _multiply(dzs[c], weight, dxs[c]),
        "dw": lambda c: add_to_dw(dzs[c], xs[c]),
    }
    tp.run(tp.schedule("row_backward"), gemms, ("dz", dzs))
    return dx, dw


class _Column(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, tp):
        tp.deferred.forget_failed_backward()
        tp.agree(f"column layer {_describe(x, weight)}")
        ctx.tp, ctx.has_bias = tp, bias is not None
        ctx.weight = weight  # saved tensors come back as copies under a checkpoint
        ctx.shape = x.shape
        ctx.save_for_backward(weight, x)  # our own positions only: 1/p of the gathered input
        return column_forward(tp, x.flatten(0, 1), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        weight, x = ctx.saved_tensors
        dx, dw = column_backward(ctx.tp, dy.contiguous(), x.flatten(0, 1), weight)
        dw = ctx.tp.deferred.deliver(ctx.weight, dw)
        return dx.view(ctx.shape), dw, dy.sum(0) if ctx.has_bias else None, None


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
    all share one all-gather. Every rank draws the whole weight and keeps its slice.
    """

    def __init__(self, in_size, parts, tp, draw, bias=False):
        super().__init__()
        self.tp, self.parts = tp, parts
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
        y = _Column.apply(x.contiguous(), self.weight, self.bias, self.tp)
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
