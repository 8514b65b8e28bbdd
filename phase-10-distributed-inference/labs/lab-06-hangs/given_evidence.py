"""What is known of a run that says nothing any more. Given: read it, and import what you need.

An evidence is a dict, made by record.py from real processes or by simulate.py:

    command      what was started
    groups       {"tp": [0, 1], ...}: the ranks of each process group, in order
    network      the network over which the ranks shall meet, such as "10.77.0.0/24"
    store        {"address": "10.77.0.1:29500", "answers": bool}: where ranks look each other up
    looks_s      [first, second]: the run was looked at twice; seconds since its start
    pace_s       seconds from one collective of a group to its next, when such a run is healthy;
                 the function pace_s below measures it in this one
    links        None, or what links_work found: [[from, to, number of values], ...] that are wrong
    ranks        one dict a rank:
      met          it has joined the others
      exit         None while it lives, else its status; -9 is SIGKILL, which a shell shows as 137
      ended_s      when it ended, or None
      states       ["sleeping", "sleeping"]: what the kernel says at each look; "gone" when ended
      cpu_s        [seconds of processor time used up to each look]; None at a look when it is gone
      stacks       [frames at each look] of its main thread, "file:function", the innermost first
      sockets      [{"local": "host:port", "remote": "host:port", "state": "LISTEN"}, ...]
      collectives  its last ones, in order: {"group", "number", "operation", "shape", "dtype",
                   "entered_s", "left_s"} in seconds since the start, as looks_s, and read a moment
                   after the second look; left_s is None while it is inside, or was when it ended
      log          its last lines
    server       of vLLM's recordings alone: {"health": [status of GET /health at each look],
                 "processes": {name: {"state", "waits_in", "stack"}}, "log": [...]}, of those of its
                 processes that hold no rank. No function needs it; look for its last line

`number` counts the collectives of one group on one rank from 0, as the sequence numbers of Torch's
flight recorder do. A collective of a group is the same on all its ranks when group, number,
operation, shape and dtype agree; it ends for nobody before all have entered. A rank is in one
collective at a time; the last of its list, when that has not been left (now_in).
"""

import json
from pathlib import Path

RECORDINGS = Path(__file__).parent / "recordings"
ERROR = "Traceback (most recent call last)"  # in a line of a log; engines write words before it

# What to type next, by cause. {rank} is the first rank of `where`.
NEXT = {
    "healthy": "nothing: it works",
    "slow": "py-spy record -d 30 on rank {rank}: it works, and slowly; at what?",
    "corrupt-link": "NCCL_P2P_DISABLE=1 and test again; then ACS, cable, card of rank {rank}",
    "operation": "TORCH_DISTRIBUTED_DEBUG=DETAIL and again: which branch differs by rank?",
    "shape": "TORCH_DISTRIBUTED_DEBUG=DETAIL and again: it compares shapes before each collective",
    "store-gone": "nc -z on the store's address: is its process up, and its port the one named?",
    "wrong-address": "ip -br address on rank {rank}'s host, then GLOO_SOCKET_IFNAME or NCCL's",
    "died-early": "the log of rank {rank}, from its first error on",
    "killed": "dmesg | grep -i 'killed process': the memory of rank {rank}'s host",
    "raised": "the log of rank {rank}, from its first error on",
    "stale-lock": "fuser on the lock file of rank {rank}; nobody holds it: delete it",
    "unknown": "py-spy dump of every rank, and nc -z from each to each: who cannot be reached?",
    "idle": "the scheduler of rank {rank}: it has to make a dummy step while others work",
    "circular": "the order in which the ranks of the circle enter their groups",
}


def name_of(number, repeat):
    return f"{number:02}-{repeat}.json"


def load(number, repeat=0):
    """One recording's evidence. Raises FileNotFoundError for a number or repeat not recorded."""
    return json.loads((RECORDINGS / name_of(number, repeat)).read_text(encoding="utf-8"))


def key_of(collective):
    """(group, number): which collective of its group this is."""
    return collective["group"], collective["number"]


def signature(collective):
    """All that has to agree between the ranks of one collective, as a tuple."""
    words = collective["operation"], tuple(collective["shape"]), collective["dtype"]
    return (*key_of(collective), *words)


def now_in(rank):
    """The collective that a rank (its dict) is in, or was in when it ended; None outside of all."""
    last = rank["collectives"][-1:]
    return last[0] if last and last[0]["left_s"] is None else None


def locked(ranks):
    """The living ranks that wait for a lock file at the second look, as Torch's FileBaton does."""
    stacks = [rank["stacks"][1][:1] if rank["exit"] is None else [] for rank in ranks]
    return [n for n, frame in enumerate(stacks) if frame and frame[0].startswith("file_baton")]


def pace_s(evidence):
    """Seconds from one collective of a group to its next, at the end of this run; the longest."""
    entered = {}
    for one in (one for rank in evidence["ranks"] for one in rank["collectives"]):
        entered.setdefault(one["group"], {})[one["number"]] = one["entered_s"]
    spans = [
        (times[max(times)] - times[min(times)]) / (max(times) - min(times))
        for times in entered.values()
        if len(times) > 1
    ]
    return max(spans, default=0.0)


def pattern(source, to, size):
    """What `source` sends to `to` in links_work: `size` whole numbers, different at each place."""
    start = 7919 * (source + 1) + 104729 * (to + 1) + size
    return [(start + 31 * place) % 1_000_003 for place in range(size)]


class TorchLinks:
    """What links_work needs, over a group of torch.distributed: send, receive, gather.

    Values are whole numbers that a float32 holds exactly. Sends do not wait for their receiver.
    """

    def __init__(self):
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.sent = torch, dist, []
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def send(self, values, to):
        tensor = self.torch.tensor(values, dtype=self.torch.float32)
        self.sent.append((self.dist.isend(tensor, to), tensor))

    def receive(self, count, source):
        tensor = self.torch.empty(count)
        self.dist.recv(tensor, source)
        return [int(value) for value in tensor]

    def gather(self, value):
        values = [None] * self.size
        self.dist.all_gather_object(values, value)
        return values
