"""Collectives over simulated ranks, with a ledger of what crossed the wires.

From outside, where all ranks are seen at once, a distributed array is a list with one numpy array
per rank. Every collective takes such a list and returns such a list; the arrays returned are fresh.

    with collectives.record() as ledger:
        y = collectives.all_reduce([part_of_rank_0, part_of_rank_1])[0]
    ledger.operations      # ["all_reduce"]

From inside, as in a real engine, a rank holds its own arrays and a `Group`, whose collectives take
and return one array. `run_ranks` runs the same function on every rank:

    def rank(x, W, group):
        return group.all_reduce(x @ W.T)

    results = collectives.run_ranks(rank, [(x0, W0), (x1, W1)])

One rank alone makes no traffic. Bytes follow nccl-tests (doc/PERFORMANCE.md): `payload_bytes` is S,
the buffer of one rank for all-reduce and broadcast, the gathered output for all-gather, the whole
input of one rank for reduce-scatter and all-to-all. `sent_bytes_per_rank` is what the ring
algorithm sends: 2 (p-1)/p S for all-reduce, (p-1)/p S for all-gather, reduce-scatter and
all-to-all. The operations that end in v, as in MPI, take parts of unequal length: there it is the
mean over the ranks, and S of an all-to-all is what the rank that hands out most brings.
"""

import copy
import queue
import threading
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Call:
    """One collective: what it was, among how many ranks, how many bytes, what went in and out."""

    order: int
    operation: str
    num_ranks: int
    payload_bytes: int
    sent_bytes_per_rank: Fraction
    inputs: tuple = field(repr=False, compare=False)  # one array per rank, read-only
    outputs: tuple = field(repr=False, compare=False)


@dataclass
class Ledger:
    """The collectives made while it was recording, in order."""

    calls: list[Call] = field(default_factory=list)
    mark: "np.random.Generator | None" = field(default=None, repr=False)
    alone: int = 0  # collectives of one rank, which send nothing and are no calls

    @property
    def operations(self) -> list[str]:
        return [call.operation for call in self.calls]

    @property
    def sent_bytes_per_rank(self) -> Fraction:
        return sum((call.sent_bytes_per_rank for call in self.calls), Fraction(0))


_ledgers: ContextVar[tuple[Ledger, ...]] = ContextVar("ledgers", default=())
_in_rank = ContextVar("in_rank", default=False)  # whether run_ranks runs one rank here


@contextmanager
def record(mark=None):
    """Record every collective made inside the `with` block; yields the Ledger.

    mark: a numpy random Generator. Every element that a collective returns is then multiplied by
    its own 1 + t, t drawn between -MARK and MARK, so that a test can tell whether the caller went
    on with what the collective returned or with numbers of its own. Ranks that receive the same
    array receive the same marks; integers stay as they are.
    """
    ledger = Ledger(mark=mark)
    token = _ledgers.set((*_ledgers.get(), ledger))
    try:
        yield ledger
    finally:
        _ledgers.reset(token)


MARK = 2.0**-32  # far above the rounding of float64, and too small to upset a computation


# --- all ranks at once --------------------------------------------------------------------------


def all_reduce(parts):
    """Sum over ranks; every rank receives the sum. parts: one array per rank, equal shapes."""
    parts = _ranks("all_reduce", parts)
    total = _marked(_sum(parts), parts)
    outputs = [total.copy() for _ in parts]
    _write("all_reduce", parts, outputs, total.nbytes, Fraction(2 * (len(parts) - 1), len(parts)))
    return outputs


def all_gather(parts, axis=-1):
    """Concatenate the ranks' arrays along `axis`, in rank order; every rank receives the whole."""
    parts = _ranks("all_gather", parts)
    whole = _marked(np.concatenate(parts, axis=axis), parts)
    outputs = [whole.copy() for _ in parts]
    _write("all_gather", parts, outputs, whole.nbytes, Fraction(len(parts) - 1, len(parts)))
    return outputs


def reduce_scatter(parts, axis=0):
    """Sum over ranks and split the sum along `axis`; rank r receives block r.

    Raises ValueError when the ranks do not divide that axis.
    """
    parts = _ranks("reduce_scatter", parts)
    _divides("reduce_scatter", parts, axis)
    total = _marked(_sum(parts), parts)
    outputs = [block.copy() for block in np.split(total, len(parts), axis=axis)]
    _write("reduce_scatter", parts, outputs, total.nbytes, Fraction(len(parts) - 1, len(parts)))
    return outputs


def all_to_all(parts, axis=0):
    """Split each rank's array into one block per rank along `axis`; rank r receives every block r.

    Raises ValueError when the ranks do not divide that axis.
    """
    parts = _ranks("all_to_all", parts)
    _divides("all_to_all", parts, axis)
    blocks = [np.split(part, len(parts), axis=axis) for part in parts]
    received = [np.concatenate([row[r] for row in blocks], axis=axis) for r in range(len(parts))]
    outputs = [_marked(array, parts) for array in received]
    _write("all_to_all", parts, outputs, parts[0].nbytes, Fraction(len(parts) - 1, len(parts)))
    return outputs


def all_gatherv(parts):
    """Concatenate the ranks' arrays along axis 0, in rank order; each may have another length."""
    parts = _ranks("all_gatherv", parts, same_length=False)
    whole = _marked(np.concatenate(parts), parts)
    outputs = [whole.copy() for _ in parts]
    _write("all_gatherv", parts, outputs, whole.nbytes, Fraction(len(parts) - 1, len(parts)))
    return outputs


def reduce_scatterv(parts, sizes):
    """Sum over ranks and split the sum along axis 0 into blocks of these sizes, one per rank.

    Raises ValueError when the sizes are not one per rank, or do not add up to that axis.
    """
    parts = _ranks("reduce_scatterv", parts)
    if len(sizes) != len(parts) or min(sizes) < 0 or sum(sizes) != len(parts[0]):
        raise ValueError(
            f"reduce_scatterv: sizes {list(sizes)} must be one per rank, {len(parts)}, and add up "
            f"to the {len(parts[0])} entries of axis 0"
        )
    total = _marked(_sum(parts), parts)
    outputs = [block.copy() for block in np.split(total, np.cumsum(sizes)[:-1])]
    _write("reduce_scatterv", parts, outputs, total.nbytes, Fraction(len(parts) - 1, len(parts)))
    return outputs


def all_to_allv(parts):
    """Rank r sends its array s to rank s; every rank receives a list, one array from each rank.

    parts: per rank a list of one array per rank. These may differ in length, and in nothing else.
    """
    _square(parts)
    received = [[row[r] for row in parts] for r in range(len(parts))]
    outputs = [[_marked(array.copy(), parts) for array in row] for row in received]
    brought = [sum(array.nbytes for array in row) for row in parts]
    kept = sum(row[r].nbytes for r, row in enumerate(parts))
    sent = Fraction(sum(brought) - kept, len(parts))
    _write("all_to_allv", parts, outputs, max(brought), sent / max(*brought, 1))
    return outputs


def broadcast(parts, root=0):
    """Every rank receives the array of rank `root`."""
    parts = _ranks("broadcast", parts)
    if not 0 <= root < len(parts):
        raise ValueError(f"broadcast: root={root} is not one of the {len(parts)} ranks")
    sent = _marked(parts[root], parts)
    outputs = [sent.copy() for _ in parts]
    _write("broadcast", parts, outputs, sent.nbytes, Fraction(1))
    return outputs


def _ranks(operation, parts, same_length=True):
    first = 0 if same_length else 1  # the axis from which on all must agree
    if not isinstance(parts, (list, tuple)) or not parts:
        wrong = f"give a list with one array per rank, got {_kind(parts)}"
        if _in_rank.get() and operation in OPERATIONS:
            wrong = f"inside one rank call group.{operation}(array): the other ranks bring theirs"
        raise ValueError(f"{operation}: {wrong}")
    for rank, part in enumerate(parts):
        if not isinstance(part, np.ndarray):
            raise ValueError(f"{operation}: rank {rank} brings {_kind(part)}, not a numpy array")
        if part.shape[first:] != parts[0].shape[first:] or part.dtype != parts[0].dtype:
            raise ValueError(
                f"{operation}: rank {rank} brings {_spec(part)}, rank 0 brings {_spec(parts[0])}; "
                "all ranks must bring the same shape"
            )
    return list(parts)


def _square(parts):
    """Raise ValueError unless every rank brings a list of one array per rank, all alike."""
    for rank, row in enumerate(parts):
        if not isinstance(row, (list, tuple)) or len(row) != len(parts):
            raise ValueError(
                f"all_to_allv: rank {rank} brings {_kind(row)}; give a list of {len(parts)} "
                "arrays, one for each rank"
            )
    _ranks("all_to_allv", [array for row in parts for array in row], same_length=False)


def _divides(operation, parts, axis):
    if parts[0].shape[axis] % len(parts):
        raise ValueError(
            f"{operation}: axis {axis} has {parts[0].shape[axis]} entries, which {len(parts)} "
            "ranks do not divide"
        )


def _sum(parts):
    return sum(parts[1:], start=parts[0].copy())  # rank order: the same rounding every time


def _marked(array, parts):
    for ledger in _ledgers.get():
        if ledger.mark and len(parts) > 1 and array.dtype.kind == "f":
            marks = 1 + ledger.mark.uniform(-MARK, MARK, array.shape)
            array = (array * marks).astype(array.dtype)
    return array


def _write(operation, parts, outputs, payload_bytes, sent_per_payload):
    ledgers = _ledgers.get()
    for ledger in ledgers:
        ledger.alone += len(parts) == 1
    if len(parts) == 1 or not ledgers:
        return
    inputs, outputs = _keep(parts), _keep(outputs)
    sent = sent_per_payload * payload_bytes
    for ledger in ledgers:
        order = len(ledger.calls)
        call = Call(order, operation, len(parts), payload_bytes, sent, inputs, outputs)
        ledger.calls.append(call)


def _keep(arrays):
    """Read-only copies of what the ranks brought or received: of each an array, or a list."""
    return tuple(_frozen(one) if isinstance(one, np.ndarray) else _keep(one) for one in arrays)


def _frozen(array):
    copied = np.array(array)
    copied.flags.writeable = False
    return copied


def _kind(value):
    if isinstance(value, (list, tuple)) and not value:
        return "an empty list"
    return f"a {type(value).__name__}"


def _spec(array):
    return f"{array.dtype}{list(array.shape)}"


# --- one rank at a time -------------------------------------------------------------------------


class Deadlock(RuntimeError):
    """The ranks do not meet. On a cluster nothing would be raised: they would wait for ever."""


class Group:
    """What one rank sees of the others: its `rank`, their number `size`, and the collectives.

    meet(operation, array, option) makes the collective among the ranks and returns what this rank
    receives; option is the axis or, for reduce_scatterv, the sizes.
    """

    def __init__(self, rank, size, meet, met=()):
        self.rank, self.size = rank, size
        self._meet, self._met = meet, met

    def all_reduce(self, array):
        """The sum of the ranks' arrays."""
        return self._meet("all_reduce", array, None)

    def all_gather(self, array, axis=-1):
        """The ranks' arrays, concatenated along `axis` in rank order."""
        return self._meet("all_gather", array, axis)

    def reduce_scatter(self, array, axis=0):
        """Block `rank` of the sum of the ranks' arrays, which is split along `axis`."""
        return self._meet("reduce_scatter", array, axis)

    def all_gatherv(self, array):
        """The ranks' arrays, concatenated along axis 0; each rank may bring another length."""
        return self._meet("all_gatherv", array, None)

    def reduce_scatterv(self, array, sizes):
        """This rank's block of the sum, which is cut along axis 0 into blocks of these sizes."""
        return self._meet("reduce_scatterv", array, list(sizes))

    def all_to_allv(self, arrays):
        """A list, one array from each rank; arrays[s] goes to rank s. They may differ in length."""
        return self._meet("all_to_allv", arrays, None)

    def __repr__(self):
        return "1 rank" if self.size == 1 else f"{self.size} ranks"

    def __deepcopy__(self, memo):
        """The same rank again, alone: the others bring what they brought to this group's meetings.

        A recorded call of a rank's function can thus be repeated, also with another function.
        """
        requests = iter(self._met)

        def meet_again(*request):
            brought = list(next(requests, ()))
            if not brought:
                raise Deadlock(f"rank {self.rank} waits {_stage(*request)}, but no other rank does")
            brought[self.rank] = request
            _agree(brought)
            return _given(_make(brought)[self.rank])

        return Group(self.rank, self.size, meet_again, self._met)


def run_ranks(function, arguments, timeout_s=10.0):
    """Run function(*arguments[rank], group) on every rank; return the list of results.

    Each rank has a thread and copies of its arguments. The ranks take turns: a rank runs up to its
    next collective; when all have come to one, it is made and recorded, and they go on.

    Raises what a rank raises, or Deadlock when the ranks are at different collectives, when one has
    returned while others wait for it, and when one does neither within timeout_s.
    """
    size, met = len(arguments), []
    ranks = [_Rank(function, own, rank, size, met) for rank, own in enumerate(arguments)]
    answers = [None] * size
    try:
        while True:
            requests = [rank.go_on(answers[rank.number], timeout_s) for rank in ranks]
            if all(request is None for request in requests):
                return [rank.result for rank in ranks]
            _agree(requests)
            met.append([_copied(request) for request in requests])
            answers = _make(requests)
    finally:
        for rank in ranks:
            rank.release()


class _Rank:
    """A thread that runs one rank's function, up to its next collective whenever it may go on."""

    def __init__(self, function, arguments, rank, size, met):
        self.number, self.result, self.error = rank, None, None
        self._function, self._arguments = function, _copied(arguments)
        self._group = Group(rank, size, self._ask, met)
        self._requests, self._answers, self._over = queue.SimpleQueue(), queue.SimpleQueue(), None
        # a new thread starts with an empty context: hand it the ledgers of the caller's
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), daemon=True)

    def go_on(self, answer, timeout_s):
        """The rank goes on with `answer`; its next request, or None at its end."""
        self._answers.put(answer) if self._thread.ident else self._thread.start()
        try:
            request = self._requests.get(timeout=timeout_s)
        except queue.Empty:
            waited = f"rank {self.number} came to no collective and did not return"
            raise Deadlock(f"{waited} within {timeout_s:g} s: an endless loop?") from None
        if self.error:
            raise self.error
        return request

    def release(self):
        """Whatever happened, the thread is not left waiting; one that loops on is left."""
        self._over = _Released()
        self._answers.put(self._over)
        if self._thread.ident:
            self._thread.join(0.2)

    def _run(self):
        _in_rank.set(True)
        try:
            self.result = self._function(*self._arguments, self._group)
        except BaseException as error:
            self.error = error
        self._requests.put(None)

    def _ask(self, operation, array, option):
        if self._over:
            raise self._over
        self._requests.put((operation, array, option))
        return _given(self._answers.get())


class _Released(BaseException):
    """Ends a rank that waits for others; what it was doing is neither a result nor an error."""


def _copied(values):
    """Of plain arrays a copy that is several times faster than copy.deepcopy."""

    def copied(value):
        plain = type(value) is np.ndarray and not value.dtype.hasobject
        return value.copy("K") if plain else copy.deepcopy(value)

    return tuple(map(copied, values))


def _given(answer):
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _agree(requests):
    """Raise Deadlock unless all ranks are at the same collective, with arrays of one shape."""
    where = ["at its end" if request is None else _stage(*request) for request in requests]
    for rank, (request, stage) in enumerate(zip(requests, where, strict=True)):
        if request is None:
            other = next(r for r, waiting in enumerate(requests) if waiting)
            raise Deadlock(
                f"rank {other} waits {where[other]}, but rank {rank} has returned without it: "
                "every rank must make the same collectives"
            )
        if stage != where[0]:
            raise Deadlock(
                f"rank 0 is {where[0]}, rank {rank} {stage}: all ranks must make the same "
                "collectives, in the same order, with arrays of the same shape"
            )


def _stage(operation, array, option):
    """`at all_gather of float64[5, 7] along axis 1`: what all ranks must agree on."""
    if operation == "all_to_allv":
        return f"at {operation}"
    if not isinstance(array, np.ndarray):
        return f"at {operation} of {_kind(array)}"
    if operation == "all_gatherv":
        lengths = ", ".join(map(str, ("any", *array.shape[1:])))
        return f"at {operation} of {array.dtype}[{lengths}]"
    if operation == "reduce_scatterv":
        return f"at {operation} of {_spec(array)} in blocks of {option}"
    along = "" if option is None else f" along axis {option % max(array.ndim, 1)}"
    return f"at {operation} of {_spec(array)}{along}"


def _make(requests):
    """What each rank receives: its array, or the ValueError of the collective."""
    operation, _, option = requests[0]
    options = () if option is None else (option,)
    try:
        return OPERATIONS[operation]([array for _, array, _ in requests], *options)
    except ValueError as error:
        return [error] * len(requests)


OPERATIONS = {
    "all_reduce": all_reduce,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "all_gatherv": all_gatherv,
    "reduce_scatterv": reduce_scatterv,
    "all_to_allv": all_to_allv,
}
