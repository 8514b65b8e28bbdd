"""Written from nothing but the docstrings, with `import collectives as c`.

secret: yes
expect: 100
"""

from __future__ import annotations

import itertools
import math
import os
import random
import sys
import time
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Callable, Iterator, Optional

import collectives as c
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rank:
    index: int
    of: int
    notes: list[str] = field(default_factory=list)

    def part(self, size: int) -> slice:
        step = size // self.of
        return slice(self.index * step, self.index * step + step)


def ranks(n: int) -> Iterator[Rank]:
    yield from (Rank(i, n) for i in range(n))


def shard_size(dimension: str, size: int, num_ranks: int) -> int:
    match (num_ranks, size):
        case (n, _) if n <= 0:
            raise ValueError(f"{dimension} = {size} over num_ranks = {num_ranks}?")
        case (n, s) if s % n != 0:
            raise ValueError(f"{dimension} = {size} cannot be split over {num_ranks} ranks")
        case (n, s):
            return s // n


def column_parallel(x: Array, W: Array, num_ranks: int) -> Array:
    shard_size("out", W.shape[0], num_ranks)
    return c.all_gather([x @ W[r.part(len(W))].T for r in ranks(num_ranks)])[0]


def row_parallel(x: Array, W: Array, num_ranks: int) -> Array:
    shard_size("in", W.shape[-1], num_ranks)
    width = W.shape[-1]
    return c.all_reduce(
        parts=[x[..., r.part(width)] @ W[..., r.part(width)].T for r in ranks(num_ranks)]
    )[0]


def relu(a: Array) -> Array:
    return a.clip(min=0)


def mlp_tp(x: Array, W1: Array, W2: Array, num_ranks: int) -> Array:
    hidden = W1.shape[1]
    shard_size("hidden", hidden, num_ranks)
    out: Optional[list[Array]] = []
    for r in ranks(num_ranks):
        out.append(relu(x @ W1[:, r.part(hidden)]) @ W2[r.part(hidden), :])
    return c.all_reduce(out)[0]


def legal_tp_sizes(num_heads, num_kv_heads, widths, max_tp_size=64) -> list[int]:
    for name, value in dict(
        num_heads=num_heads, num_kv_heads=num_kv_heads, max_tp_size=max_tp_size
    ).items():
        if value < 1:
            raise ValueError(f"{name} is {value}")
    if min(widths, default=1) < 1:
        raise ValueError(f"widths has {min(widths)}")
    common = math.gcd(num_heads, *widths)
    divisors = [d for d in range(1, min(common, max_tp_size) + 1) if not common % d]
    return list(filter(lambda d: max(d, num_kv_heads) % min(d, num_kv_heads) == 0, divisors))


def softmax(s):
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def attention_tp(x, Wq, Wk, Wv, Wo, num_heads, num_kv_heads, num_ranks):
    mine = shard_size("num_heads", num_heads, num_ranks)
    if max(num_ranks, num_kv_heads) % min(num_ranks, num_kv_heads):
        raise ValueError(f"{num_kv_heads} kv heads, {num_ranks} ranks")
    d = Wq.shape[0] // num_heads
    T = x.shape[0]
    causal = np.tril(np.ones((T, T))) == 1
    partial = []
    for rank in range(num_ranks):
        outs, kv_seen = [], {}
        for head in range(rank * mine, (rank + 1) * mine):
            kv = head // (num_heads // num_kv_heads)
            if kv not in kv_seen:
                rows = slice(kv * d, kv * d + d)
                kv_seen[kv] = (x @ Wk[rows].T, x @ Wv[rows].T)
            k, v = kv_seen[kv]
            q = x @ Wq[head * d : head * d + d].T
            scores = np.where(causal, q @ k.T / math.sqrt(d), -np.inf)
            outs.append(softmax(scores) @ v)
        cols = slice(rank * mine * d, (rank + 1) * mine * d)
        partial.append(np.concatenate(outs, axis=1) @ Wo[:, cols].T)
    return c.all_reduce(partial)[0]


def vocab_parallel_embedding(token_ids, E, num_ranks):
    rows = shard_size("vocab", E.shape[0], num_ranks)
    parts = []
    for first in range(0, E.shape[0], rows):
        table = E[first : first + rows]
        local = np.clip(token_ids - first, 0, rows - 1)
        inside = np.logical_and(token_ids >= first, token_ids < first + rows)
        parts.append(np.take(table, local, axis=0) * inside[:, np.newaxis])
    return c.all_reduce(parts)[0]


def mlp_tp_sequence_parallel(x, W1, W2, num_ranks):
    shard_size("tokens", x.shape[0], num_ranks)
    hidden = W1.shape[1]
    shard_size("hidden", hidden, num_ranks)
    xs = c.all_gather([x[r.part(len(x))] for r in ranks(num_ranks)], axis=0)
    ys = [
        relu(whole @ W1[:, r.part(hidden)]) @ W2[r.part(hidden)]
        for whole, r in zip(xs, ranks(num_ranks))
    ]
    return np.vstack(c.reduce_scatter(ys, 0))


if __name__ == "__main__":
    assert shard_size("x", 8, 2) == 4
    assert np.allclose(column_parallel(np.eye(4), np.eye(4), 2), np.eye(4))
