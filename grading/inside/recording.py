"""`collectives.record` for the learner's own use; the ledger that counts is the judge's."""

import contextlib
import contextvars
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Call:
    """As in collectives.py."""

    order: int
    operation: str
    num_ranks: int
    payload_bytes: int
    sent_bytes_per_rank: Fraction
    inputs: tuple = field(repr=False, compare=False)
    outputs: tuple = field(repr=False, compare=False)


@dataclass
class Ledger:
    """As in collectives.py."""

    calls: list[Call] = field(default_factory=list)

    @property
    def operations(self):
        return [call.operation for call in self.calls]

    @property
    def sent_bytes_per_rank(self):
        return sum((call.sent_bytes_per_rank for call in self.calls), Fraction(0))


_ledgers = contextvars.ContextVar("ledgers", default=())


@contextlib.contextmanager
def record():
    """As in collectives.py: record every collective made inside the `with` block."""
    ledger = Ledger()
    token = _ledgers.set((*_ledgers.get(), ledger))
    try:
        yield ledger
    finally:
        _ledgers.reset(token)


def write(operation, parts, outputs):
    """Note a collective that the judge has made in the ledgers that are open."""
    ledgers, ranks = _ledgers.get(), len(parts)
    if ranks == 1 or not ledgers:
        return
    payload = (outputs if operation in ("all_reduce", "all_gather") else parts)[0].nbytes
    trips = {"all_reduce": 2 * (ranks - 1), "broadcast": ranks}.get(operation, ranks - 1)
    sent = Fraction(trips, ranks) * payload
    for ledger in ledgers:
        order = len(ledger.calls)
        call = Call(order, operation, ranks, payload, sent, tuple(parts), tuple(outputs))
        ledger.calls.append(call)


def public_names():
    """What `from collectives import *` gives besides the collectives."""
    names = {"Call": Call, "Ledger": Ledger, "record": record, "np": np, "Fraction": Fraction}
    names |= {"contextmanager": contextlib.contextmanager, "dataclass": dataclass, "field": field}
    return names | {"ContextVar": contextvars.ContextVar}
