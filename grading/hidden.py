"""Hidden numbers: what a submission cannot know in advance, derived from the course's secret.

A check that draws, from numpy's generators or from random.Random, is run again with other seeds:
its own oracle judges, so a check should draw. Of one that does not, some calls are made again
with one number changed, and compared with the solution's results. What an honest submission may do
is not held against it:

- give another answer than the solution's: a function whose answer (a list, tuple, dict or array)
  was accepted in the check though it is not the solution's, and is the same when asked again, is
  not compared at all;
- refuse or change what makes no sense: changed arguments keep the order and the divisibility that
  all published ones had, and hardly leave their range; a refusal is forgiven where other changed
  calls gave a new answer, and it was right;
- be slow: unless it refuses, no function is called more often than the check itself called it.
"""

import copy
import hashlib
import random
from fractions import Fraction
from itertools import permutations

import numpy as np

from labkit.mistakes import outcome_of
from labkit.plain import agree, leaves

CALLS = 6  # made again per function, at most
COMPARED = 64  # published calls of a function that others are made from; none of all is made again
TRIES = 40  # until the arguments make sense and the solution accepts them
TOLERANCE = 1e-6  # relative; the checks' own are 1e-12 to 1e-6, and a remembered answer is far off


class Numbers:
    """Counts the generators a check makes, and mixes a secret into their seeds."""

    def __init__(self):
        self.draws, self.secret = 0, None
        original = np.random.default_rng

        def default_rng(seed=None):
            self.draws += 1
            made = isinstance(seed, (np.random.Generator, np.random.BitGenerator))
            if self.secret is None or made:
                return original(seed)
            return original(self.mixed(seed))

        class Random(random.Random):
            def __new__(cls, seed=None):
                return super().__new__(cls)

            def __init__(this, seed=None):
                self.draws += 1
                super().__init__(seed if self.secret is None else self.mixed(seed))

        np.random.default_rng, random.Random = default_rng, Random

    def mixed(self, seed):
        digest = hashlib.sha256(self.secret + repr(seed).encode()).digest()
        return int.from_bytes(digest, "little")


def agrees_elsewhere(calls, solution, remote, seed: bytes) -> tuple[bool, dict[str, str]]:
    """Whether changed calls give what the solution gives, and by function why none was made.

    A function that was compared has "" as its reason.
    """
    chance = random.Random(seed)
    by_name, refused, reasons = {}, {}, {}
    for name, args, kwargs, outcome in calls:
        if hasattr(solution, name):
            by_name.setdefault(name, [])
            found = by_name[name] if outcome[0] == "value" else refused.setdefault(name, [])
            found.append((args, kwargs, outcome))
    for name, published in sorted(refused.items()):
        if refuses_only_these(published, getattr(solution, name), getattr(remote, name), chance):
            return False, {name: ""}
    for name, published in sorted(by_name.items()):
        right, given = getattr(solution, name), getattr(remote, name)
        verdict, reasons[name] = compare(published, right, given, chance)
        if not verdict:
            return False, reasons
    return True, reasons


def compare(published, right, given, chance) -> tuple[bool, str]:
    """One function: its published calls (args, kwargs, outcome), the solution's and the given.

    (whether nothing speaks against it, why it was not compared or "")
    """
    usual, odd = [], []
    for args, kwargs, outcome in published[-COMPARED:]:
        agreed = alike(outcome, outcome_of(right, args, kwargs))
        (usual if agreed else odd).append((args, kwargs, outcome))
    if any(is_another_answer(*call, given) for call in odd[:CALLS]):
        return True, "the check accepts other answers than the solution's, and it gave one"
    agreed = told = differs = refused = 0  # told: with an answer that no published call had
    for made in range(2 * CALLS):
        if made >= min(CALLS, len(published)) and (told or not refused):
            break
        new = changed_call(usual, published, right, chance)
        if new is None:
            break
        args, kwargs, expected = new
        outcome = outcome_of(given, args, kwargs)
        if alike(outcome, expected):
            agreed += 1
            told += not any(alike(expected, outcome) for _, _, outcome in published)
        elif outcome[0] == "value":
            differs += 1
        else:
            refused += 1
    if not published:
        return True, "the check only makes calls that it refuses"
    if not agreed + differs + refused:
        return True, "no number in its arguments can be changed so that the call still makes sense"
    if not any(numbers_of(args, kwargs) for args, kwargs, _ in published):
        return agreed > differs + refused, ""  # inside lists, a change may well make no sense
    return not differs and (not refused or told > 0), ""


def refuses_only_these(published, right, given, chance) -> bool:
    """Whether changed calls that the solution refuses, too, are all answered: a list by heart."""
    answered = 0
    for _ in range(CALLS):
        new = changed_call(published[-COMPARED:], published, right, chance, "raises")
        if new is None:
            break
        args, kwargs, _ = new
        if outcome_of(given, args, kwargs)[0] == "raises":
            return False
        answered += 1
    return answered > 0


def is_another_answer(args, kwargs, outcome, given):
    """Whether the answer that was accepted is this submission's answer, and not a whim."""
    if not isinstance(outcome[1], (list, tuple, dict, np.ndarray)):
        return False
    return alike(outcome, outcome_of(given, args, kwargs))


def alike(one, other) -> bool:
    """The same answer, however it is written: else Fractions for floats would not be compared."""
    try:
        return agree(_spelled_out(one), _spelled_out(other), TOLERANCE)
    except OverflowError:  # an int or a Fraction that no float holds
        return False


def _spelled_out(value):
    if isinstance(value, (list, tuple)):
        return [_spelled_out(item) for item in value]
    if isinstance(value, dict):
        return {key: _spelled_out(item) for key, item in value.items()}
    if isinstance(value, slice):
        return [value.start or 0, value.stop, value.step or 1]
    return float(value) if isinstance(value, Fraction) else value


# --- other arguments ------------------------------------------------------------------------------


def changed_call(usual, published, right, chance, wanted="value"):
    """(args, kwargs, the solution's outcome) of a call that was not published; None if none is.

    wanted: what the solution does in it, return a "value" or "raises".
    """
    if not usual:
        return None
    made = {key((args, kwargs)) for args, kwargs, _ in published}
    numbers = [numbers_of(args, kwargs) for args, kwargs, _ in published]
    for _ in range(TRIES):
        args, kwargs, _ = chance.choice(usual)
        own = numbers_of(args, kwargs)
        if not own:
            args, kwargs = changed((args, kwargs), chance)
        else:
            place = chance.choice(sorted(own, key=str))
            seen = [found[place] for found in numbers if place in found]
            value = other(own[place], seen, chance)
            if wanted == "value" and not fits(own | {place: value}, place, numbers):
                continue
            args, kwargs = put(args, kwargs, place, value)
        if key((args, kwargs)) in made:
            continue
        expected = outcome_of(right, args, kwargs)
        if expected[0] == wanted:
            return args, kwargs, expected
    return None


def numbers_of(args, kwargs):
    """The arguments that are numbers or arrays themselves, by position or name."""
    places = {**dict(enumerate(args)), **kwargs}
    return {at: value for at, value in places.items() if type(value) in (int, float, np.ndarray)}


def put(args, kwargs, place, value):
    """Copies of the arguments with one replaced."""
    args, kwargs = list(copy.deepcopy(args)), copy.deepcopy(kwargs)
    (kwargs if place in kwargs else args)[place] = value
    return tuple(args), kwargs


def fits(own, place, numbers):
    """Whether the changed number keeps what held in every published call: a < b, a <= b, a | b."""
    ints = {at: value for at, value in own.items() if type(value) is int}
    for a, b in permutations(ints, 2):
        pairs = [(found[a], found[b]) for found in numbers if a in found and b in found]
        if place not in (a, b) or any(type(n) is not int for pair in pairs for n in pair):
            continue
        relations = [int.__lt__, int.__le__]
        if len(set(pairs)) > 2:  # of two pairs it may be chance
            relations.append(lambda x, y: x != 0 and y % x == 0)
        for holds in relations:
            if all(holds(*pair) for pair in pairs) and not holds(ints[a], ints[b]):
                return False
    return True


def key(value):
    """Equal for equal arguments."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(key, value))
    if isinstance(value, dict):
        return tuple((repr(name), key(item)) for name, item in value.items())
    return repr(value)


def changed(arguments, chance):
    """A copy of the arguments in which one number, or one array, is another."""
    numbers = [value for value in leaves(arguments) if type(value) in (int, float, np.ndarray)]
    target = chance.randrange(len(numbers)) if numbers else -1
    seen = -1

    def walk(value):
        nonlocal seen
        if isinstance(value, (list, tuple)):
            return type(value)(map(walk, value))
        if isinstance(value, dict):
            return {name: walk(item) for name, item in value.items()}
        if type(value) in (int, float, np.ndarray):
            seen += 1
            if seen == target:
                return other(value, [value], chance)
        return copy.deepcopy(value)

    return walk(arguments)


def other(value, seen, chance):
    """Another number; an int among or just above those seen, which costs no more to work with."""
    if type(value) is int:
        whole = {number for number in seen if type(number) is int}
        new = [chance.randint(min(whole), max(whole) + 3) for _ in range(TRIES)]
        return chance.choice([n for n in new if n not in whole] or [value + 1, value + 2])
    if type(value) is float:
        return value * chance.uniform(0.5, 2.0)
    if value.dtype.kind == "f":
        return value * np.random.Generator(np.random.PCG64(chance.getrandbits(64))).uniform(
            0.5, 2.0, value.shape
        )
    return value.copy()
