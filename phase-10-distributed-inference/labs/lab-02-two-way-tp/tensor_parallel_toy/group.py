"""One rank's place in a tensor-parallel group, and how it runs a schedule there."""

import contextlib
from collections import Counter

import torch
import torch.distributed as dist

from . import schedule as schedules
from .deferred import Deferred
from .link import Link
from .lost_rank import LostRank, agree
from .nccl_link import NcclLink
from .simulated_link import simulated_link

_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class TensorParallel:
    """One rank's place in a tensor-parallel group, and how its layers communicate.

    order: "plain" (collectives, then GEMMs), "overlap" (`schedules`, operation -> function of the
    number of ranks and the rank), or "sequential" (the same operations, nothing overlapped).
    `recorder` sees every operation; `after_operation(verb)` is called after each.
    """

    made = Counter()  # on each group so far; alike on its ranks, which make theirs in one order

    def __init__(self, group, device, store=None, link="auto", timeout_s=30.0):
        self.group, self.device, self.store, self.timeout_s = group, device, store, timeout_s
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.link_spec, self.link = link, make_link(link, group)
        self.order, self.schedules = "overlap", schedules.SCHEDULES
        self.recorder = self.after_operation = None
        members = "-".join(map(str, dist.get_process_group_ranks(group)))
        self.made[members] += 1
        self.name = f"{members}/{self.made[members]}"
        self.agreed, self.next_tag = [], 0
        self.deferred = Deferred()

    def agree(self, operation):
        """All ranks say what they are about to do, the first time they do it; LostRank if not."""
        if self.size > 1 and self.store is not None and operation not in self.agreed:
            agree(self, f"{self.name}/{len(self.agreed)}", operation)
            self.agreed.append(operation)

    def schedule(self, operation):
        """This rank's schedule of one operation."""
        ops = self.schedules[operation](self.size, self.rank)
        return schedules.sequential(ops) if self.order == "sequential" else ops

    def run(self, ops, products, gathered=None, partial=None):
        """Execute a schedule; what follows its ["later"] is left to `deferred`.

        products: name -> function(chunk) that multiplies; gathered: (name, chunk buffers);
        partial: (name, chunk buffers), summed at the owner.
        """
        call = _Call(self, products, gathered, partial)
        now = ops.index(["later"]) if ["later"] in ops else len(ops)
        call.execute(ops[:now])
        if ops[now:]:
            self.deferred.leave(lambda: call.execute(ops[now + 1 :]))

    def gemm(self, a, b):
        with self.span("gemm", "all chunks"):
            return a @ b

    def all_gather(self, x):
        full = x.new_empty(x.shape[0] * self.size, x.shape[1])
        with self.span("collective", "all_gather"):
            _all_gather(full, x.contiguous(), group=self.group)
        return full

    def reduce_scatter(self, y):
        own = y.new_empty(y.shape[0] // self.size, y.shape[1])
        with self.span("collective", "reduce_scatter"):
            _reduce_scatter(own, y.contiguous(), group=self.group)
        return own

    def largest(self, *numbers):
        """The largest of each number over the ranks, on every rank."""
        worst = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(worst, op=dist.ReduceOp.MAX, group=self.group)
        return worst.tolist()

    def span(self, verb, *operands):
        """Shows one operation to the recorder."""
        return self.recorder.span(verb, operands) if self.recorder else contextlib.nullcontext()


class _Call:
    """One schedule under way on this rank, and a method for each of its verbs."""

    def __init__(self, tp, products, gathered, partial):
        self.tp, self.link, self.products = tp, tp.link, products
        self.buffers = dict(pair for pair in (gathered, partial) if pair)
        self.summed = partial and partial[0]
        self.pending = {}  # what has to be waited for, by ("wait" | "wait_send", tensor, ...)
        self.arrived = {}  # partial sums of peers that are not added yet
        self.first_tag, tp.next_tag = tp.next_tag, (tp.next_tag + 4096) % 2**30

    def execute(self, ops):
        for verb, *operands in ops:
            if verb == "fill":  # what others left shows itself
                self.tp.deferred.finish()
                continue
            with self.tp.span(verb, *operands):
                getattr(self, "_" + verb)(*operands)
            if self.tp.after_operation:
                self.tp.after_operation(verb)

    def _gemm(self, product, chunk):
        self.products[product](chunk)

    def _post_recv(self, tensor, chunk, peer):
        buffer = self.buffers[tensor][chunk]
        if tensor == self.summed:
            buffer = torch.empty_like(buffer)
        tag = self._tag(tensor, chunk)
        self.pending["wait", tensor, chunk, peer] = self.link.irecv(buffer, peer, tag)

    def _send(self, tensor, chunk, peer):
        work = self.link.isend(self.buffers[tensor][chunk], peer, self._tag(tensor, chunk))
        self.pending["wait_send", tensor, chunk, peer] = work

    def _wait(self, tensor, chunk, peer):
        arrived = self._end("wait", tensor, chunk, peer)
        if tensor == self.summed:
            self.arrived[chunk, peer] = arrived
        else:
            self.buffers[tensor][chunk] = arrived

    def _wait_send(self, tensor, chunk, peer):
        self._end("wait_send", tensor, chunk, peer)

    def _add(self, tensor, chunk, peer):
        self.buffers[tensor][chunk].add_(self.arrived.pop((chunk, peer)))

    def _tag(self, tensor, chunk):
        return self.first_tag + 4 * chunk + (2 if tensor == self.summed else 0)

    def _end(self, verb, tensor, chunk, peer):
        try:
            return self.pending.pop((verb, tensor, chunk, peer)).wait()
        except (RuntimeError, LostRank) as error:
            action = "receiving" if verb == "wait" else "sending"
            error.add_note(f"{action} {tensor}[{chunk}], peer rank {peer}")
            raise


def make_link(spec, group):
    """`spec` is "auto" (gloo or NCCL), or "simulated:1gbit" (also "250mbit")."""
    backend = dist.get_backend(group) if group else "gloo"
    if spec == "auto" and backend == "nccl":
        return NcclLink(group)
    if spec == "auto":
        return Link(group)
    if backend != "gloo":
        raise ValueError(f"link {spec!r} is for tensors of processors: use it with --backend gloo")
    return simulated_link(spec, group)
