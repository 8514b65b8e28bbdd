"""Collectives over simulated ranks, with a ledger of what crossed the wires.

A distributed array is a list with one numpy array per rank. Every collective takes such a list and
returns such a list; the arrays returned are fresh. One rank alone makes no traffic.

    with collectives.record() as ledger:
        y = collectives.all_reduce([part_of_rank_0, part_of_rank_1])[0]
    ledger.operations      # ["all_reduce"]

Bytes follow nccl-tests (doc/PERFORMANCE.md): `payload_bytes` is S, the buffer of one rank for
all-reduce and broadcast, the gathered output for all-gather, the whole input of one rank for
reduce-scatter and all-to-all. `sent_bytes_per_rank` is what the ring algorithm sends:
2 (p-1)/p S for all-reduce, (p-1)/p S for all-gather, reduce-scatter and all-to-all.
"""

from contextlib import contextmanager
from contextvars import ContextVar
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

    @property
    def operations(self) -> list[str]:
        return [call.operation for call in self.calls]

    @property
    def sent_bytes_per_rank(self) -> Fraction:
        return sum((call.sent_bytes_per_rank for call in self.calls), Fraction(0))


_ledgers: ContextVar[tuple[Ledger, ...]] = ContextVar("ledgers", default=())


@contextmanager
def record():
    """Record every collective made inside the `with` block; yields the Ledger."""
    ledger = Ledger()
    token = _ledgers.set((*_ledgers.get(), ledger))
    try:
        yield ledger
    finally:
        _ledgers.reset(token)


def all_reduce(parts):
    """Sum over ranks; every rank receives the sum. parts: one array per rank, equal shapes."""
    parts = _ranks("all_reduce", parts)
    total = sum(parts[1:], start=parts[0].copy())  # rank order: the same rounding every time
    outputs = [total.copy() for _ in parts]
    ring = Fraction(2 * (len(parts) - 1), len(parts))
    _write("all_reduce", parts, total.nbytes, ring, outputs)
    return outputs


def all_gather(parts, axis=-1):
    """Concatenate the ranks' arrays along `axis`, in rank order; every rank receives the whole."""
    parts = _ranks("all_gather", parts)
    whole = np.concatenate(parts, axis=axis)
    outputs = [whole.copy() for _ in parts]
    ring = Fraction(len(parts) - 1, len(parts))
    _write("all_gather", parts, whole.nbytes, ring, outputs)
    return outputs


def reduce_scatter(parts, axis=0):
    """Sum over ranks and split the sum along `axis`; rank r receives block r.

    Raises ValueError when the ranks do not divide that axis.
    """
    parts = _ranks("reduce_scatter", parts)
    _divides("reduce_scatter", parts, axis)
    total = sum(parts[1:], start=parts[0].copy())
    outputs = [block.copy() for block in np.split(total, len(parts), axis=axis)]
    ring = Fraction(len(parts) - 1, len(parts))
    _write("reduce_scatter", parts, total.nbytes, ring, outputs)
    return outputs


def all_to_all(parts, axis=0):
    """Split each rank's array into one block per rank along `axis`; rank r receives every block r.

    Raises ValueError when the ranks do not divide that axis.
    """
    parts = _ranks("all_to_all", parts)
    _divides("all_to_all", parts, axis)
    blocks = [np.split(part, len(parts), axis=axis) for part in parts]
    outputs = [np.concatenate([row[r] for row in blocks], axis=axis) for r in range(len(parts))]
    ring = Fraction(len(parts) - 1, len(parts))
    _write("all_to_all", parts, parts[0].nbytes, ring, outputs)
    return outputs


def broadcast(parts, root=0):
    """Every rank receives the array of rank `root`."""
    parts = _ranks("broadcast", parts)
    if not 0 <= root < len(parts):
        raise ValueError(f"broadcast: root={root} is not one of the {len(parts)} ranks")
    outputs = [parts[root].copy() for _ in parts]
    _write("broadcast", parts, parts[root].nbytes, Fraction(1), outputs)
    return outputs


def _ranks(operation, parts):
    if not isinstance(parts, (list, tuple)) or not parts:
        raise ValueError(f"{operation}: give a list with one array per rank, got {_kind(parts)}")
    for rank, part in enumerate(parts):
        if not isinstance(part, np.ndarray):
            raise ValueError(f"{operation}: rank {rank} brings {_kind(part)}, not a numpy array")
        if part.shape != parts[0].shape or part.dtype != parts[0].dtype:
            raise ValueError(
                f"{operation}: rank {rank} brings {part.dtype}{list(part.shape)}, rank 0 brings "
                f"{parts[0].dtype}{list(parts[0].shape)}; all ranks must bring the same shape"
            )
    return list(parts)


def _divides(operation, parts, axis):
    if parts[0].shape[axis] % len(parts):
        raise ValueError(
            f"{operation}: axis {axis} has {parts[0].shape[axis]} entries, which {len(parts)} "
            "ranks do not divide"
        )


def _kind(value):
    if isinstance(value, (list, tuple)) and not value:
        return "an empty list"
    return f"a {type(value).__name__}"


def _write(operation, parts, payload_bytes, ring, outputs):
    ledgers = _ledgers.get()
    if len(parts) == 1 or not ledgers:
        return
    inputs, outputs = _keep(parts), _keep(outputs)
    sent = ring * payload_bytes
    for ledger in ledgers:
        order = len(ledger.calls)
        call = Call(order, operation, len(parts), payload_bytes, sent, inputs, outputs)
        ledger.calls.append(call)


def _keep(arrays):
    copies = tuple(np.array(array) for array in arrays)
    for copy in copies:
        copy.flags.writeable = False
    return copies
