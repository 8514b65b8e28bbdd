"""Messages between two ranks of one group, over gloo. `nccl_link` and `simulated_link` are like it.

Peers are numbered inside the group (`group_src`, `group_dst`), so a sub-group works like the world.
"""

import torch.distributed as dist


class Link:
    """Point-to-point over gloo: a message moves in the background as soon as it is posted."""

    def __init__(self, group, name="gloo"):
        self.group, self.name, self.sent_bytes = group, name, 0

    def irecv(self, buffer, peer, tag):
        """Expect a message; `wait` of what is returned gives the tensor that holds it."""
        return Arrival(buffer, dist.irecv(buffer, group=self.group, group_src=peer, tag=tag))

    def isend(self, buffer, peer, tag):
        """Send; after `wait` of what is returned, the buffer may be written again."""
        self.sent_bytes += buffer.nbytes
        return dist.isend(buffer, group=self.group, group_dst=peer, tag=tag)


class Arrival:
    """A buffer, and what has to end before it holds its message."""

    def __init__(self, buffer, *works):
        self.buffer, self.works = buffer, works

    def wait(self):
        for work in self.works:
            work.wait()
        return self.buffer
