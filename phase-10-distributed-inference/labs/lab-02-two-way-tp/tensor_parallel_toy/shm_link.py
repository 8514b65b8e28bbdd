"""Messages between ranks of one host: a peer reads a chunk where it lies, as over NVLink.

What a rank sends stands in an arena of its own, which every rank of the group has mapped. Over a
Unix socket it says where; the receiver multiplies or adds right there, and says when it has done
with it. So gathered chunks are copied once and partial sums never, and no thread moves bytes beside
the one that multiplies.

The arena is a memfd: it has no name that somebody could forget, and the kernel frees it with the
last process that has it mapped, however that ends. A socket whose other end died says so at once.
The same two things make it Linux only.
"""

import bisect
import contextlib
import math
import mmap
import os
import socket
import struct
import sys
import time
import weakref
from collections import defaultdict
from pathlib import Path

import torch
import torch.distributed as dist

from .link import Arrival, Link
from .lost_rank import LostRank

ARENA_BYTES = 1 << 30  # address space; memory is only taken by what is in use at the same time
PACKET = struct.Struct("<qqqd")  # tag (or DONE), offset of the message, of its slot, moment
DONE = -1
SPIN_S = 200e-6  # waking a sleeping rank takes about as long


class ShmLink(Link):
    def __init__(self, group, timeout_s):
        if sys.platform != "linux":
            raise ValueError("link shm is made of memfd and nameless sockets, which only Linux has")
        super().__init__(group, "shm")
        self.timeout_s, self.rank = timeout_s, dist.get_rank(group)
        self.spins = dist.get_world_size(group) <= (os.cpu_count() or 1)
        self.top, self.starts, self.sizes, self.users = 0, [], {}, {}  # slots of the own arena
        self.free = defaultdict(list)  # size -> slots
        self.inbox = defaultdict(dict)  # peer -> tag -> (offset, slot, moment)
        arena = os.memfd_create("tensor_parallel_toy")
        os.ftruncate(arena, ARENA_BYTES)
        self.sockets, self.arenas = {}, {self.rank: mmap.mmap(arena, ARENA_BYTES)}
        self.base = torch.frombuffer(self.arenas[self.rank], dtype=torch.uint8).data_ptr()
        for peer, (its_socket, its_arena) in _meet(group, arena, timeout_s).items():
            self.sockets[peer], self.arenas[peer] = its_socket, mmap.mmap(its_arena, ARENA_BYTES)
            os.close(its_arena)
        os.close(arena)

    def empty(self, like, shape):
        size = math.prod(shape) * like.element_size()
        if not size:
            return like.new_empty(shape)
        for peer in self.sockets:
            while self._hear(peer, socket.MSG_DONTWAIT):
                pass
        start = self._slot(-(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
        self.users[start] = 1
        return self._tensor(self.rank, start, like.dtype, shape, self._leave, start)

    def reachable(self, buffer):
        if 0 <= buffer.data_ptr() - self.base < ARENA_BYTES:
            return buffer
        return self.empty(buffer, buffer.shape).copy_(buffer)

    def isend(self, buffer, peer, tag):
        """The slot is not used again until the peer has done with it: nobody waits for that."""
        self.sent_bytes += buffer.nbytes
        offset = buffer.data_ptr() - self.base
        slot = self.starts[bisect.bisect_right(self.starts, offset) - 1]
        self.users[slot] += 1
        try:
            self._say(peer, tag, offset, slot)
        except OSError as error:
            raise self._lost(peer) from error
        return Arrival(buffer)

    def irecv(self, buffer, peer, tag):
        return _InArena(self, buffer, peer, tag)

    def receive(self, peer, tag):
        """(offset, slot, moment) of a message in the peer's arena, as soon as it is there."""
        end = time.perf_counter() + SPIN_S * self.spins
        while tag not in self.inbox[peer] and time.perf_counter() < end:
            self._hear(peer, socket.MSG_DONTWAIT)
        while tag not in self.inbox[peer]:
            if not self._hear(peer):
                raise LostRank(
                    f"waited {self.timeout_s:g} s for the other ranks: rank {peer} sent nothing"
                )
        return self.inbox[peer].pop(tag)

    def _tensor(self, owner, offset, dtype, shape, function, *arguments):
        """A part of an arena; the function is called when nothing refers to it any more."""
        size = math.prod(shape) * dtype.itemsize
        memory = memoryview(self.arenas[owner])[offset : offset + size]
        weakref.finalize(memory, function, *arguments).atexit = False
        return torch.frombuffer(memory, dtype=dtype).view(shape)

    def _slot(self, size):
        """Where `size` bytes of the own arena are free; the latest used first: it is in caches."""
        if self.free[size]:
            return self.free[size].pop()
        start, self.top = self.top, self.top + size
        if self.top > ARENA_BYTES:
            raise ValueError(
                f"link shm: more than {ARENA_BYTES >> 20} MiB of messages at the same time; use "
                "smaller batches, or --link auto"
            )
        self.starts.append(start)
        self.sizes[start] = size
        return start

    def _leave(self, slot):
        """One user less: a tensor of ours, or a peer."""
        self.users[slot] -= 1
        if not self.users[slot]:
            self.free[self.sizes[slot]].append(slot)

    def _say(self, peer, tag, offset, slot):
        self.sockets[peer].send(PACKET.pack(tag, offset, slot, time.perf_counter()))

    def _say_done(self, peer, slot):
        with contextlib.suppress(OSError):  # a peer that has left needs its memory no more
            self._say(peer, DONE, 0, slot)

    def _hear(self, peer, flags=0):
        """Take one packet of a peer; False if none came (at once, or within the timeout)."""
        try:
            packet = self.sockets[peer].recv(PACKET.size, flags)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._lost(peer) from error
        if not packet:
            raise self._lost(peer)
        tag, offset, slot, moment = PACKET.unpack(packet)
        if tag == DONE:
            self._leave(slot)
        else:
            self.inbox[peer][tag] = offset, slot, moment
        return True

    def _lost(self, peer):
        return LostRank(f"lost the connection to rank {peer}, which must have died")


class _InArena:
    """A message that will lie in the peer's arena; `wait` gives it as a tensor, without a copy."""

    arrived_at = None

    def __init__(self, link, like, peer, tag):
        self.link, self.like, self.peer, self.tag = link, like, peer, tag

    def wait(self):
        offset, slot, self.arrived_at = self.link.receive(self.peer, self.tag)
        dtype, shape = self.like.dtype, self.like.shape
        done = self.link._say_done, self.peer, slot
        return self.link._tensor(self.peer, offset, dtype, shape, *done)


def host():
    """This start of this machine's kernel; containers on one host share it."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _meet(group, arena, timeout_s):
    """Connect all ranks and exchange arenas -> {peer: (socket, descriptor of its arena)}."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("")  # Linux chooses a name that is in no folder
    listener.listen(size)
    listener.settimeout(timeout_s)
    everyone = [None] * size
    dist.all_gather_object(everyone, (host(), listener.getsockname().hex()), group=group)
    for peer, (other, _) in enumerate(everyone):
        if other != host():
            raise ValueError(f"link shm is for ranks of one host, and rank {peer} is on another")
    met = {}
    for peer in [*range(rank), *range(rank + 1, size)]:
        if peer > rank:
            connection, _ = listener.accept()
        else:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                connection.connect(bytes.fromhex(everyone[peer][1]))
            except OSError as error:
                raise ValueError(
                    f"link shm cannot reach rank {peer} on this host: is it in another container?"
                ) from error
        socket.send_fds(connection, [struct.pack("<q", rank)], [arena])
        # seconds and microseconds; also a rank that is late must not block this one for ever
        limit = struct.pack("@ll", int(timeout_s), int(timeout_s % 1 * 1e6))
        connection.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, limit)
        name, [its_arena], _, _ = socket.recv_fds(connection, 8, 1)
        met[struct.unpack("<q", name)[0]] = connection, its_arena
    listener.close()
    return met
