"""Hidden numbers: what a submission cannot know in advance, derived from the course's secret.

A check that draws from numpy's generators is run again with other seeds. Of one that does not, some
calls are made again with one number changed, and compared with the solution's results; only
those whose published answer was the solution's, so that a call with another permitted answer is not
held against it.
"""

import copy
import hashlib
import random

import numpy as np

from labkit.mistakes import outcome_of, same
from labkit.traced import TracedArray

CALLS = 6  # made again per check
TRIES = 8  # until the solution accepts the changed number


class Numbers:
    """Counts what a check draws from numpy's generators, and mixes a secret into their seeds."""

    def __init__(self):
        self.draws, self.secret = 0, None
        original = np.random.default_rng

        def default_rng(seed=None):
            self.draws += 1
            made = isinstance(seed, (np.random.Generator, np.random.BitGenerator))
            if self.secret is None or made:
                return original(seed)
            mixed = hashlib.sha256(self.secret + repr(seed).encode()).digest()
            return original(int.from_bytes(mixed, "little"))

        np.random.default_rng = default_rng


def agrees_elsewhere(calls, solution, remote, seed: bytes) -> bool | None:
    """Whether changed calls give what the solution gives; None if there was none to make."""
    chance = random.Random(seed)
    candidates = []
    for name, args, kwargs, outcome in sorted(calls, key=lambda call: call[0]):
        right = getattr(solution, name, None)
        traced = any(type(value) is TracedArray for value in leaves((args, kwargs)))
        if right is None or traced or outcome[0] != "value":
            continue
        if agree(outcome, outcome_of(right, args, kwargs)):
            candidates.append((name, right, args, kwargs))
    chance.shuffle(candidates)
    compared = None
    for name, right, args, kwargs in candidates[:CALLS]:
        for _ in range(TRIES):
            changed_args, changed_kwargs = changed((args, kwargs), chance)
            expected = outcome_of(right, changed_args, changed_kwargs)
            if expected[0] == "value":
                break
        else:
            continue
        given = outcome_of(getattr(remote, name), changed_args, changed_kwargs)
        if not agree(given, expected):
            return False
        compared = True
    return compared


def agree(one, other):
    return same(plain(one), plain(other))


def plain(value):
    """Numbers of numpy as Python's, so that np.int64(2), np.array(2) and 2 are the same answer."""
    if isinstance(value, np.generic) or isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def leaves(value):
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    else:
        yield value


def changed(arguments, chance):
    """A copy of the arguments in which one number, or one array, is another."""
    numbers = sum(type(leaf) in (int, float, np.ndarray) for leaf in leaves(arguments))
    target = chance.randrange(numbers) if numbers else -1
    seen = -1

    def walk(value):
        nonlocal seen
        if isinstance(value, (list, tuple)):
            return type(value)(map(walk, value))
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if type(value) in (int, float, np.ndarray):
            seen += 1
            if seen == target:
                return other(value, chance)
        return copy.deepcopy(value)

    return walk(arguments)


def other(value, chance):
    if type(value) is int:
        return chance.choice([value + 1, value + 2, value + 3, 2 * value, 3 * value])
    if type(value) is float:
        return value * chance.uniform(0.5, 2.0)
    if value.dtype.kind == "f":
        return value * np.random.Generator(np.random.PCG64(chance.getrandbits(64))).uniform(
            0.5, 2.0, value.shape
        )
    return value.copy()
