"""A simulated machine for schedules: is this order of operations right, and what does it cost?

Each rank issues its operations in order. A GEMM keeps the rank busy; a message travels by itself
once it is sent and its receive is posted; only `wait` and `wait_send` block. A rank's sends leave
one after the other in the order they were issued, and a rank takes in one message at a time: that
is a network card, and also c10d's rule that a transfer starts after what was queued before it.
Standard library only. Time is in any unit; integers and fractions stay exact.
"""

from itertools import product

# For every function: tensors gathered from their owners, tensors summed at their owners, and the
# products with what each chunk of them is made from (the gathered tensor, or None).
PROBLEMS = {
    "all_gather_gemm": {"gathered": ["x"], "reduced": [], "products": {"y": "x"}},
    "gemm_reduce_scatter": {"gathered": [], "reduced": ["y"], "products": {"y": None}},
    "column_backward": {"gathered": ["x"], "reduced": ["dx"], "products": {"dx": None, "dw": "x"}},
    "row_backward": {"gathered": ["dz"], "reduced": [], "products": {"dx": "dz", "dw": "dz"}},
}
MARKS = (["later"], ["fill"])  # they order layers; within one layer they mean nothing
OPERANDS = {"post_recv": 3, "send": 3, "wait": 3, "wait_send": 3, "gemm": 2, "add": 3}


class ScheduleError(ValueError):
    """What is wrong with a schedule, in one sentence; spans: what went well before."""

    spans = ()


def pipeline_bound(problem, num_ranks, gemm, comm):
    """The shortest makespan any order can reach with `num_ranks` chunks, two simple problems."""
    p, hops = num_ranks, num_ranks - 1
    if p == 1:
        return gemm
    if problem == "all_gather_gemm":  # the last chunk arrives, then is multiplied
        return max(p * gemm, hops * comm + gemm)
    # reduce-scatter: the first partial sum leaves after one GEMM, the last one after p - 1
    return max(p * gemm, hops * gemm + comm, gemm + hops * comm)


def simulate(schedules, problem, gemm=1, comm=1):
    """One schedule per rank -> {"makespan", "exposed", "busy", "spans"}; ScheduleError if wrong.

    `gemm` and `comm` are the times of one chunk. `exposed` is, per rank, the time spent blocked.
    `spans` lists {"rank", "lane" ("gemm" | "send" | "wait"), "name", "start", "end"}.
    """
    ranks = _Machine(schedules, PROBLEMS[problem], gemm, comm)
    try:
        return ranks.run()
    except ScheduleError as error:
        error.spans = ranks.spans
        raise


class _Message:
    def __init__(self):
        self.sent_at = self.posted_at = self.arrival = self.content = None
        self.waited = self.left = self.added = False


class _Machine:
    def __init__(self, schedules, problem, gemm, comm):
        self.size, self.gemm_time, self.comm_time = len(schedules), gemm, comm
        self.gathered, self.reduced = problem["gathered"], problem["reduced"]
        self.products = problem["products"]
        self.schedules = [
            [self._checked(op, rank, i) for i, op in enumerate(ops) if op not in MARKS]
            for rank, ops in enumerate(schedules)
        ]
        ranks = range(self.size)
        self.now, self.step, self.exposed = [0] * self.size, [0] * self.size, [0] * self.size
        self.messages = {}  # (tensor, chunk, source, destination) -> _Message
        self.queue = [[] for _ in ranks]  # sends of a rank that have not started
        self.wire_free, self.intake_free = [0] * self.size, [0] * self.size
        self.has = [{(t, r) for t in self.gathered} for r in ranks]
        self.expected = [set() for _ in ranks]  # what gathers have posted receives for
        self.done = [set() for _ in ranks]
        self.sums = [{} for _ in ranks]  # (tensor, chunk) -> ranks whose share is in it
        self.posted, self.sent = [0] * self.size, [0] * self.size
        self.spans = []

    def _checked(self, op, rank, index):
        where = f"rank {rank}, operation {index}"
        if not isinstance(op, (list, tuple)) or not op or op[0] not in OPERANDS:
            raise ScheduleError(f"{where}: {op!r} is none of {', '.join(OPERANDS)}")
        if len(op) != OPERANDS[op[0]] + 1:
            names = "tensor, chunk, peer" if OPERANDS[op[0]] == 3 else "tensor, chunk"
            raise ScheduleError(f"{where}: {op!r} should be [{op[0]!r}, {names}]")
        verb, tensor, chunk = op[:3]
        known = list(self.products) if verb == "gemm" else self.gathered + self.reduced
        known = self.reduced if verb == "add" else known
        if tensor not in known:
            raise ScheduleError(
                f"{where}: {verb} of {tensor!r}, but here it takes "
                f"{' or '.join(map(repr, known)) or 'no tensor'}"
            )
        for number, limit, what in [
            (chunk, self.size, "chunk"),
            *[(peer, self.size, "peer") for peer in op[3:]],
        ]:
            if type(number) is not int or not 0 <= number < limit:
                alone = ": one rank alone has no peer" if limit == 1 else ""
                raise ScheduleError(
                    f"{where}: {what} {number!r} of {op!r} is no plain int from 0 to "
                    f"{limit - 1}{alone}"
                )
        if rank in op[3:]:
            raise ScheduleError(f"{where}: {op!r} talks to the rank itself")
        return tuple(op)

    def run(self):
        """Let every rank go as far as it can, move one message, and again."""
        while True:
            for rank in range(self.size):
                while self.step[rank] < len(self.schedules[rank]) and self._issue(rank):
                    self.step[rank] += 1
            if all(self.step[r] == len(self.schedules[r]) for r in range(self.size)):
                break
            if not self._move_one():
                self._deadlock()
        while self._move_one():
            pass
        for sentence in self._unfinished():
            raise ScheduleError(sentence)
        return {
            "makespan": max(self.now),
            "exposed": self.exposed,
            "busy": [len(done) * self.gemm_time for done in self.done],
            "spans": self.spans,
        }

    def _fail(self, rank, text):
        raise ScheduleError(f"rank {rank}, operation {self.step[rank]}: {text}")

    def _issue(self, rank):
        """One operation of one rank; False if it has to block until a message moves."""
        verb, *operands = self.schedules[rank][self.step[rank]]
        return getattr(self, "_" + verb)(rank, *operands)

    def _message(self, *key):
        return self.messages.setdefault(key, _Message())

    def _post_recv(self, rank, tensor, chunk, peer):
        message, what = self._message(tensor, chunk, peer, rank), f"{tensor}[{chunk}]"
        if message.posted_at is not None:
            self._fail(rank, f"posts the receive of {what} from rank {peer} twice")
        if tensor in self.gathered:
            if (tensor, chunk) in self.has[rank] | self.expected[rank]:
                self._fail(
                    rank, f"receives {what}, which it already has or expects: gathered twice"
                )
            self.expected[rank].add((tensor, chunk))
        message.posted_at = self.now[rank]
        self.posted[rank] += 1
        return True

    def _send(self, rank, tensor, chunk, peer):
        message, what = self._message(tensor, chunk, rank, peer), f"sends {tensor}[{chunk}]"
        if message.sent_at is not None:
            self._fail(rank, f"{what} to rank {peer} twice")
        if self.posted[rank] <= self.sent[rank]:
            self._fail(
                rank,
                f"{what} to rank {peer} before it has posted a receive for this exchange: post the "
                "receive first, or the two directions of the link take turns",
            )
        if tensor in self.gathered:
            if (tensor, chunk) not in self.has[rank]:
                why = "it is not the owner and has not waited for it (a data race)"
                self._fail(rank, f"{what} without having it: {why}")
        elif (tensor, chunk) not in self.sums[rank]:
            self._fail(rank, f"sends the partial sum {tensor}[{chunk}] before its GEMM")
        else:
            message.content = set(self.sums[rank][tensor, chunk])
        message.sent_at = self.now[rank]
        self.sent[rank] += 1
        self.queue[rank].append((tensor, chunk, rank, peer))
        return True

    def _gemm(self, rank, tensor, chunk):
        source = self.products[tensor]
        if (tensor, chunk) in self.done[rank]:
            self._fail(rank, f"multiplies {tensor}[{chunk}] twice")
        if source and (source, chunk) not in self.has[rank]:
            why = "(a data race: the chunk may not have arrived)"
            self._fail(rank, f"multiplies {source}[{chunk}] before waiting for it {why}")
        self.done[rank].add((tensor, chunk))
        self._span(rank, "gemm", f"{tensor}[{chunk}]", self.now[rank], self.gemm_time)
        self.now[rank] += self.gemm_time
        if tensor in self.reduced:
            self.sums[rank][tensor, chunk] = {rank}
        return True

    def _wait(self, rank, tensor, chunk, peer):
        message, what = self._message(tensor, chunk, peer, rank), f"{tensor}[{chunk}]"
        if message.posted_at is None:
            self._fail(rank, f"waits for {what} from rank {peer}, but posted no receive")
        if message.arrival is None:
            return False
        self._block(rank, what, message.arrival)
        message.waited = True
        if tensor in self.gathered:
            self.has[rank].add((tensor, chunk))
        return True

    def _wait_send(self, rank, tensor, chunk, peer):
        message, what = self._message(tensor, chunk, rank, peer), f"{tensor}[{chunk}]"
        if message.sent_at is None:
            self._fail(rank, f"waits for a send of {what} to rank {peer} that was never issued")
        if message.arrival is None:
            return False
        self._block(rank, f"{what} sent", message.arrival)
        message.left = True
        return True

    def _add(self, rank, tensor, chunk, peer):
        message, what = self._message(tensor, chunk, peer, rank), f"{tensor}[{chunk}]"
        if not message.waited:
            why = "(a data race: the partial sum may not have arrived)"
            self._fail(rank, f"adds {what} of rank {peer} before waiting for it {why}")
        if (tensor, chunk) not in self.sums[rank]:
            self._fail(rank, f"adds to {what} before its own GEMM has written it")
        own = self.sums[rank][tensor, chunk]
        if message.added or own & message.content:
            twice = sorted(own & message.content) or [peer]
            self._fail(rank, f"adds the share of rank {twice[0]} to {what} twice")
        for (*sent, to), other in self.messages.items():
            if sent == [tensor, chunk, rank] and other.sent_at is not None and not other.left:
                self._fail(
                    rank, f"changes {what} while it is being sent to rank {to}: wait_send first"
                )
        own |= message.content
        message.added = True
        return True

    def _block(self, rank, name, until):
        if until > self.now[rank]:
            self._span(rank, "wait", name, self.now[rank], until - self.now[rank])
            self.exposed[rank] += until - self.now[rank]
            self.now[rank] = until

    def _span(self, rank, lane, name, start, duration):
        self.spans.append(
            {"rank": rank, "lane": lane, "name": name, "start": start, "end": start + duration}
        )

    def _move_one(self):
        """Transfer the message that can start first; every rank is blocked or done by now."""
        ready = []
        for rank, queue in enumerate(self.queue):
            if queue and self.messages[queue[0]].posted_at is not None:
                message, peer = self.messages[queue[0]], queue[0][3]
                start = max(
                    message.sent_at, message.posted_at, self.wire_free[rank], self.intake_free[peer]
                )
                ready.append((start, rank))
        if not ready:
            return False
        start, rank = min(ready)
        key = self.queue[rank].pop(0)
        end = start + self.comm_time
        self.messages[key].arrival = self.wire_free[rank] = self.intake_free[key[3]] = end
        self._span(rank, "send", f"{key[0]}[{key[1]}] to rank {key[3]}", start, self.comm_time)
        return True

    def _deadlock(self):
        ranks = range(self.size)
        stuck = [rank for rank in ranks if self.step[rank] < len(self.schedules[rank])]
        # A rank that would go on later waits for another one: what never comes is said first.
        sentences = sorted(map(self._stuck, stuck), key=lambda one: one.endswith("only later"))
        raise ScheduleError("deadlock: " + "; ".join(sentences[:2]))

    def _stuck(self, rank):
        """What a blocked rank waits for, and why in vain."""
        verb, tensor, chunk, peer = self.schedules[rank][self.step[rank]]
        what = f"{tensor}[{chunk}]"
        if verb == "wait_send":
            why = self._held_up((tensor, chunk, rank, peer))
            return f"rank {rank} waits until {what} has left for rank {peer}, {why}"
        own, theirs = self.schedules[rank], self.schedules[peer]
        sent = [op[2] for op in theirs if op[:2] == ("send", tensor) and op[3] == rank]
        astray = [n for n in sent if ("post_recv", tensor, n, peer) not in own]
        why = "which never sends it" + "".join(f" (it sends {tensor}[{n}])" for n in astray[:1])
        if self._message(tensor, chunk, peer, rank).sent_at is not None:
            why = self._held_up((tensor, chunk, peer, rank))
        elif chunk in sent:
            why = "and it is sent only later"
        return f"rank {rank} waits for {what} from rank {peer}, {why}"

    def _held_up(self, key):
        """Why a message that was sent has not left: the first in its queue has no receive yet."""
        tensor, chunk, source, peer = first = self.queue[key[2]][0]
        why = "which posts no receive for it"
        if ("post_recv", tensor, chunk, source) in self.schedules[peer]:
            why = "which posts its receive only later"
        queued = f"and it is queued behind {tensor}[{chunk}] to rank {peer}, "
        return why if first == key else queued + why

    def _unfinished(self):
        """What is wrong when every rank has returned, sentence by sentence."""
        for rank in range(self.size):
            for tensor, chunk in product(self.products, range(self.size)):
                if (tensor, chunk) not in self.done[rank]:
                    yield f"rank {rank} never multiplies {tensor}[{chunk}]"
            for tensor, chunk in product(self.reduced, [rank]):
                missing = set(range(self.size)) - self.sums[rank][tensor, chunk]
                if missing:
                    lacks = f"lacks the share of rank {min(missing)}"
                    yield f"rank {rank} owns {tensor}[{chunk}], but its sum {lacks}"
        for (tensor, chunk, source, peer), message in self.messages.items():
            what = f"{tensor}[{chunk}]"
            if message.posted_at is None:
                yield f"rank {source} sends {what} to rank {peer}, which posts no receive for it"
            if message.sent_at is None:
                receive = f"posts a receive of {what} from rank {source}"
                yield f"rank {peer} {receive}, which never sends it"
            if not message.left:
                why = "its buffer may be freed while it is sent"
                yield f"rank {source} returns without wait_send of {what} to rank {peer}: {why}"
            if not message.waited:
                yield f"rank {peer} returns without waiting for {what} from rank {source}"
