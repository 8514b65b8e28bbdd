"""The mistakes bank: plausible wrong implementations, each rejected by the check it violates.

A lab's mistakes.py holds one function per mistake, `<function>__<what_is_wrong>`. The docstring's
first line completes "Your result is what you get when ..."; its last paragraph is
`Rejected by: test_a, test_b`. The bank is executed on top of the solution's namespace.
"""

import contextlib
import copy
import functools
import itertools
import math
import re
import textwrap
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from labkit.loading import Lab, load_module

MAX_CAUSES = 2
FEWEST_CALLS = 2  # one call is no evidence: many mistakes agree on it
FURTHER_CALLS = 40
RECENT_CALLS = 64
TOLERANCE = 1e-9  # relative; a mistake is applied to the same arguments


@dataclass(frozen=True)
class Mistake:
    """One wrong implementation of `replaces`."""

    name: str
    replaces: str
    when: str  # completes "your result is what you get when ..."
    rejected_by: tuple[str, ...]
    function: object


@dataclass(frozen=True)
class Bank:
    """A lab's mistakes, living in the namespace of one copy of its solution."""

    solution: object
    mistakes: list[Mistake]

    @contextlib.contextmanager
    def applied(self, mistake: Mistake):
        """The solution with the mistake in the place of the function that it replaces.

        A wrong helper makes the functions that call it wrong too, so the namespace is changed for
        as long as the `with` block lasts.
        """
        right = getattr(self.solution, mistake.replaces)
        setattr(self.solution, mistake.replaces, mistake.function)
        try:
            yield self.solution
        finally:
            setattr(self.solution, mistake.replaces, right)


@functools.cache
def read_bank(lab: Lab) -> Bank:
    """The lab's bank, read once in a process; `load_bank` gives another copy."""
    return load_bank(lab)


def load_bank(lab: Lab) -> Bank:
    """The lab's bank on a fresh copy of its solution; empty when the lab has no mistakes.py."""
    solution = load_module(lab.file("solution"))
    before = set(vars(solution))
    path = lab.file("mistakes")
    if not path.exists():
        return Bank(solution, [])
    exec(compile(path.read_bytes(), str(path), "exec"), solution.__dict__)
    mistakes = []
    for name, function in vars(solution).copy().items():
        if name in before or "__" not in name.strip("_") or not callable(function):
            continue
        replaces = name.split("__")[0]
        if not hasattr(solution, replaces):
            raise ValueError(
                f"{path.name}: {name} replaces '{replaces}', which is not in solution.py"
            )
        doc = textwrap.dedent("    " + (function.__doc__ or "")).strip()
        when = doc.split("\n")[0].strip().rstrip(".")
        named = re.search(r"Rejected by:\s*([\w\s,]+)\.?\s*$", doc)
        if not when or not named:
            raise ValueError(
                f"{path.name}: the docstring of {name} needs a first line that completes 'Your "
                "result is what you get when ...' and a last line 'Rejected by: test_name'"
            )
        rejected_by = tuple(re.findall(r"\w+", named[1]))
        mistakes.append(Mistake(name, replaces, when, rejected_by, function))
    return Bank(solution, mistakes)


def find_hint(bank: Bank, calls, further=None) -> str:
    """What a wrong result equals: "your result is what you get when ...", or "" if nothing known.

    calls: (function name, args, kwargs, outcome), outcome as `outcome_of` returns it, newest last.
    A mistake is named when it does what the learner's function did in every call, and gave a wrong
    value in one: a call that only raises, or returns None, is no evidence. `further(function)`
    yields more calls of the learner's function, on inputs that the failed check never came to.
    """
    by_function = {}
    for name, *call in list(calls)[: -RECENT_CALLS - 1 : -1]:
        by_function.setdefault(name, []).append(call)
    for name, made in by_function.items():
        if not any(_is_wrong(bank.solution, name, call) for call in made):
            continue
        suspects = [m for m in bank.mistakes if _fits(bank, m, name, made)]
        more = list(itertools.islice(further(name), FURTHER_CALLS)) if suspects and further else []
        suspects = [m for m in suspects if _fits(bank, m, name, more)]
        own = [mistake.when for mistake in suspects if mistake.replaces == name]
        causes = list(dict.fromkeys(own or [mistake.when for mistake in suspects]))
        if len(made) + len(more) >= FEWEST_CALLS and 0 < len(causes) <= MAX_CAUSES:
            return "your result is what you get when " + ", or when ".join(causes)
    return ""


def _is_wrong(solution, name, call):
    args, kwargs, outcome = call
    if outcome[0] != "value" or outcome[1] is None:
        return False
    return not agree(outcome, outcome_of(getattr(solution, name), args, kwargs), TOLERANCE)


def _fits(bank, mistake, name, calls):
    with bank.applied(mistake) as wrong:
        function = getattr(wrong, name)
        return all(
            agree(outcome, outcome_of(function, args, kwargs), TOLERANCE)
            for args, kwargs, outcome in calls
        )


def outcome_of(function, args, kwargs):
    """("value", result) or ("raises", exception type name), on copies of the arguments."""
    try:
        return "value", function(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    except Exception as error:
        return "raises", type(error).__name__


def agree(one, other, tolerance) -> bool:
    """Equal plain values: exact ones exactly, an int like the Fraction; floats relatively."""
    one, other = _scalar(one), _scalar(other)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
            return False
        if one.dtype.kind not in "fc":
            return bool((one == other).all())
        scale = tolerance * float(np.abs(other).max(initial=0.0))
        return bool(np.allclose(one, other, rtol=tolerance, atol=scale, equal_nan=True))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(agree(a, b, tolerance) for a, b in pairs)
    if isinstance(one, dict) and isinstance(other, dict):
        alike = one.keys() == other.keys()
        return alike and all(agree(one[key], other[key], tolerance) for key in one)
    kinds = {type(one), type(other)}
    if kinds <= {int, Fraction}:
        return one == other
    if kinds <= {int, float}:
        return math.isclose(one, other, rel_tol=tolerance) or one != one and other != other
    return len(kinds) == 1 and not isinstance(one, np.ndarray) and one == other


def _scalar(value):
    single = isinstance(value, np.generic) or isinstance(value, np.ndarray) and value.ndim == 0
    return value.item() if single else value
