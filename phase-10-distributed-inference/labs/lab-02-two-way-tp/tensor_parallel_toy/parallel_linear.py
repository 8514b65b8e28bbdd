"""Column- and row-parallel linear layers with sequence parallelism, plain and overlapped.

Between the layers every rank holds its s/p positions: activations are [s/p, b, h]. A column layer
gathers them and multiplies by its rows of W; a row layer multiplies by its columns of W and
scatters the sum. Backward is the mirror image. What the layers keep for backward is sharded too:
the column layer saves its own s/p positions and gathers again.

Inside the functions x is [rows, features], rows = s * b, so that a chunk of positions is a
contiguous block of rows.
"""

import functools
from collections import Counter

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd.function import once_differentiable

from . import schedule as schedules
from .initialize import LostRank
from .link import make_link

_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class TensorParallel:
    """One rank's place in a tensor-parallel group, and how its layers communicate.

    overlap=False: collectives, then GEMMs. overlap=True: the schedules of `schedule`, per layer
    and direction as `plans` says: (operation, rows, out, in) -> ("overlap" | "sequential", pieces).
    `recorder` sees every operation; `after_gemm` is called after each GEMM.
    """

    made = Counter()  # on each group so far; alike on its ranks, which make theirs in one order

    def __init__(self, group, device, store=None, link="auto", timeout_s=30.0, overlap=True):
        self.group, self.device, self.store, self.timeout_s = group, device, store, timeout_s
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.link = make_link(link, group)
        self.overlap, self.plans, self.default_plan = overlap, {}, ("overlap", 1)
        self.recorder = self.after_gemm = None
        members = "-".join(map(str, dist.get_process_group_ranks(group)))
        self.made[members] += 1
        self.name = f"{members}/{self.made[members]}"
        self.agreed, self.next_tag = [], 0
        self.unfinished, self.gradients = [], []  # see `run` and `deliver`

    def agree(self, operation):
        """All ranks say what they are about to do, the first time they do it; LostRank if not."""
        if self.size == 1 or self.store is None or operation in self.agreed:
            return
        key = f"{self.name}/{len(self.agreed)}"
        self.store.set(f"{key}/{self.rank}", operation)
        for peer in range(self.size):
            try:
                other = self.store.get(f"{key}/{peer}").decode()
            except RuntimeError:
                raise LostRank(
                    f"rank {peer} did not come to {operation} within "
                    f"{self.timeout_s:g} s: it is dead or does something else"
                ) from None
            if other != operation:
                raise LostRank(
                    f"is at {operation}, but rank {peer} is at {other}: all ranks must "
                    "run the same layers on the same shapes"
                )
        self.agreed.append(operation)

    def schedule(self, operation, rows, weight):
        """(schedule, pieces) of one operation for `rows` local rows."""
        kind, pieces = self.plans.get((operation, rows, *weight.shape), self.default_plan)
        pieces = pieces if rows % pieces == 0 else 1
        ops = schedules.SCHEDULES[operation](self.size, self.rank, pieces)
        return schedules.VARIANTS[kind](ops), pieces

    def run(self, ops, products, gathered=None, partial=None):
        """Execute a schedule; what follows its ["later"] is left to `finish`.

        products: name -> function(chunk) that multiplies; gathered: (name, chunk buffers);
        partial: (name, chunk buffers), summed at the owner.
        """
        buffers = dict(pair for pair in (gathered, partial) if pair)
        summed = partial and partial[0]
        inbox, pending = {}, {}  # what arrives to be added; works by ("wait" | "wait_send", ...)
        call, self.next_tag = self.next_tag, (self.next_tag + 4096) % 2**30

        def execute(ops):
            for verb, *operands in ops:
                if verb == "fill":
                    self.finish()
                    continue
                name, chunk, *peer = key = tuple(operands)
                tag = call + 4 * chunk + (2 if name == summed else 0)
                with _span(self.recorder, verb, key):
                    if verb == "gemm":
                        products[name](chunk)
                        if self.after_gemm:
                            self.after_gemm()
                        self.link.give_way()
                    elif verb == "post_recv":
                        buffer = buffers[name][chunk]
                        if name == summed:
                            buffer = inbox[key] = torch.empty_like(buffer)
                        work = self.link.irecv(buffer, *peer, tag)
                        pending["wait", key] = self._recorded(work, "arrived", key, tag)
                    elif verb == "send":
                        work = self.link.isend(buffers[name][chunk], *peer, tag)
                        pending["wait_send", key] = self._recorded(work, "sent", key, tag)
                        self.link.give_way()
                    elif verb == "add":
                        buffers[name][chunk].add_(inbox.pop(key))
                    else:
                        self._wait(pending.pop((verb, key)), verb, key)

        now = ops.index(["later"]) if ["later"] in ops else len(ops)
        execute(ops[:now])
        if ops[now:]:
            self.unfinished.append(functools.partial(execute, ops[now + 1 :]))

    @torch.no_grad()  # it writes into results that autograd already knows
    def finish(self):
        """Everything that backward schedules have left for later, the oldest first."""
        while self.unfinished:
            self.unfinished.pop(0)()

    def deliver(self, weight, gradient):
        """Add `gradient`, which `finish` completes, to weight.grad when backward ends.

        Autograd would look at it at once. So hooks on the accumulation do not see it, and
        `torch.autograd.grad` cannot return it. A weight that was computed from others cannot wait:
        its gradient is returned for autograd to carry on.
        """
        if not weight.is_leaf:
            self.finish()
            return gradient
        if weight.requires_grad:
            self.gradients.append((weight, gradient))
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        return None

    def forget_failed_backward(self):
        """End a backward that raised: its gradients would end up in the next one's."""
        if torch._C._current_graph_task_id() == -1:  # else a checkpoint recomputes in backward
            try:
                self.finish()  # no buffer may be freed while its message is in flight
            finally:
                self.unfinished.clear()
                self.gradients.clear()

    def _end_backward(self):
        self.finish()
        while self.gradients:
            weight, gradient = self.gradients.pop(0)
            weight.grad = gradient if weight.grad is None else weight.grad.add_(gradient)

    def _recorded(self, work, event, key, tag):
        return self.recorder.message(work, event, key, tag) if self.recorder else work

    def _wait(self, work, verb, key):
        try:
            work.wait()
        except RuntimeError as error:
            action = "receiving" if verb == "wait" else "sending"
            error.add_note(f"{action} {key[0]}[{key[1]}], peer rank {key[2]}")
            raise

    def all_gather(self, x):
        full = x.new_empty(x.shape[0] * self.size, x.shape[1])
        with _span(self.recorder, "collective", ("all_gather",)):
            _all_gather(full, x.contiguous(), group=self.group)
        return full

    def reduce_scatter(self, y):
        own = y.new_empty(y.shape[0] // self.size, y.shape[1])
        with _span(self.recorder, "collective", ("reduce_scatter",)):
            _reduce_scatter(own, y.contiguous(), group=self.group)
        return own


class _NoSpan:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


_NO_SPAN = _NoSpan()


def _span(recorder, verb, key):
    return recorder.span(verb, key) if recorder else _NO_SPAN


def _gather_buffers(tp, own, pieces):
    """Chunk buffers of a gathered tensor: views of `own` for our chunks, new ones for the rest."""
    rows = own.shape[0]
    rest = own.new_empty((tp.size - 1) * rows, own.shape[1])
    before, after = rest.split([tp.rank * rows, (tp.size - 1 - tp.rank) * rows])
    return [
        chunk
        for block in (before, own, after)
        if block.shape[0]
        for chunk in block.split(rows // pieces)
    ]


def _chunks(full, tp, pieces):
    return full.split(full.shape[0] // (tp.size * pieces))


def _multiply(x, matrix, out, bias=None):
    """out = x @ matrix (+ bias), written in place."""
    return (
        torch.addmm(bias, x, matrix, out=out) if bias is not None else torch.mm(x, matrix, out=out)
    )


def _summing(total):
    """add(a, b): total += a.T @ b; the first call writes, so that nobody clears the buffer."""
    started = []

    def add(a, b):
        torch.mm(a.t(), b, out=total) if not started else total.addmm_(a.t(), b)
        started.append(True)

    return add


def _gemms(tp, *products):
    """The unoverlapped layer's GEMMs, visible to the recorder."""
    with _span(tp.recorder, "gemm", ("all chunks",)):
        return [product() for product in products]


def column_forward(tp, x, weight, bias=None, ops=None):
    """all-gather(x) @ W.T + b: x [rows / p, in], weight [out / p, in] -> y [rows, out / p]."""
    y = x.new_empty(x.shape[0] * tp.size, weight.shape[0])
    if not tp.overlap:
        full = tp.all_gather(x)
        _gemms(tp, lambda: _multiply(full, weight.t(), y, bias))
        return y
    default, pieces = tp.schedule("column_forward", x.shape[0], weight)
    xs, ys = _gather_buffers(tp, x, pieces), _chunks(y, tp, pieces)
    gemm = {"y": lambda c: _multiply(xs[c], weight.t(), ys[c], bias)}
    tp.run(ops or default, gemm, ("x", xs))
    return y


def column_backward(tp, dy, x, weight, ops=None):
    """dy [rows, out / p], x [rows / p, in] -> dx [rows / p, in] and dw, whole after `tp.finish`.

    x is gathered again.
    """
    if not tp.overlap:
        full = tp.all_gather(x)
        [partial] = _gemms(tp, lambda: dy @ weight)
        dx = tp.reduce_scatter(partial)
        return dx, *_gemms(tp, lambda: dy.t() @ full)
    default, pieces = tp.schedule("column_backward", x.shape[0], weight)
    dx, dw = torch.empty_like(x), torch.empty_like(weight)
    xs, dxs = _gather_buffers(tp, x, pieces), _gather_buffers(tp, dx, pieces)
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
    ys, xs = _gather_buffers(tp, y, pieces), _chunks(x, tp, pieces)
    gemm = {"y": lambda c: _multiply(xs[c], weight.t(), ys[c])}
    tp.run(ops or default, gemm, partial=("y", ys))
    return y


def row_backward(tp, dz, x, weight, ops=None):
    """dz [rows / p, out], x [rows, in / p] -> dx [rows, in / p] and dw, whole after `tp.finish`."""
    if not tp.overlap:
        full = tp.all_gather(dz)
        return tuple(_gemms(tp, lambda: full @ weight, lambda: full.t() @ x))
    default, pieces = tp.schedule("row_backward", dz.shape[0], weight)
    dx, dw = torch.empty_like(x), torch.empty_like(weight)
    dzs, add_to_dw = _gather_buffers(tp, dz, pieces), _summing(dw)
    xs, dxs = _chunks(x, tp, pieces), _chunks(dx, tp, pieces)
    gemms = {
        "dx": lambda c: _multiply(dzs[c], weight, dxs[c]),
        "dw": lambda c: add_to_dw(dzs[c], xs[c]),
    }
    tp.run(ops or default, gemms, ("dz", dzs))
    return dx, dw


class _Column(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, tp):
        tp.forget_failed_backward()
        tp.agree(f"column layer {_describe(x, weight)}")
        ctx.tp, ctx.has_bias = tp, bias is not None
        ctx.weight = weight  # saved tensors come back as copies under a checkpoint
        ctx.save_for_backward(x, weight)  # our own positions only: 1/p of the gathered input
        return column_forward(tp, x.flatten(0, 1), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dy = dy.contiguous()
        dx, dw = column_backward(ctx.tp, dy, x.flatten(0, 1), weight)
        dw = ctx.tp.deliver(ctx.weight, dw)
        return dx.view_as(x), dw, dy.sum(0) if ctx.has_bias else None, None


class _Row(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, tp):
        tp.forget_failed_backward()
        tp.agree(f"row layer {_describe(x, weight)}")
        ctx.tp, ctx.weight = tp, weight
        ctx.save_for_backward(x, weight)
        return row_forward(tp, x.flatten(0, 1), weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, dz):
        x, weight = ctx.saved_tensors
        dx, dw = row_backward(ctx.tp, dz.contiguous(), x.flatten(0, 1), weight)
        return dx.view_as(x), ctx.tp.deliver(ctx.weight, dw), None


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
