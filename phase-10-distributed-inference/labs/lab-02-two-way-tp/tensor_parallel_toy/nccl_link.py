"""Messages between two ranks of one group, over NCCL."""

import torch.distributed as dist

from .link import Arrival, Link


class NcclLink(Link):
    """Point-to-point over NCCL, where a lone receive would block its stream.

    The k-th send is launched in one NCCL group with the k-th posted receive; our schedules pair
    them (the stream machine insists on it). c10d does the rest with events: the transfer starts
    after what the current stream held when it was launched, and `wait` blocks the stream only.
    """

    def __init__(self, group):
        super().__init__(group, "nccl")
        self.posted = []

    def irecv(self, buffer, peer, tag):
        op = dist.P2POp(dist.irecv, buffer, group=self.group, group_peer=peer)
        exchange = _Exchange([op])
        self.posted.append(exchange)
        return Arrival(buffer, exchange)

    def isend(self, buffer, peer, tag):
        self.sent_bytes += buffer.nbytes
        exchange = self.posted.pop(0) if self.posted else _Exchange([])
        exchange.ops.append(dist.P2POp(dist.isend, buffer, group=self.group, group_peer=peer))
        exchange.works = dist.batch_isend_irecv(exchange.ops)
        return exchange


class _Exchange:
    """A receive and the send launched with it; both are done when either is waited for."""

    def __init__(self, ops):
        self.ops, self.works = ops, None

    def wait(self):
        if self.works is None:
            raise RuntimeError("a receive was never paired with a send")
        while self.works:
            self.works.pop().wait()
