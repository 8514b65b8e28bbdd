"""The mistakes bank: plausible wrong implementations, each rejected by the check it violates.

A mistake is called `<function>__<what_is_wrong>`. In a lab's mistakes.py it is a function whose
docstring's first line completes "Your result is what you get when ..." and whose last paragraph is
`Rejected by: test_a, test_b`; or, when it is a small change of the solution, an entry of `EDITS`:

    Rejected by: test_a, test_b                     of all entries below, up to the next such line

    <function>__<what_is_wrong>
    one line that completes "Your result is what you get when ..."
    Why, in as many lines as it takes.
        a part of the solution's function  ->  what stands there instead, wherever it occurs

The bank is executed on top of the solution's namespace.
"""

import ast
import contextlib
import functools
import inspect
import itertools
import math
import re
from dataclasses import dataclass
from fractions import Fraction

from labkit.loading import Lab, load_module
from labkit.recorder import copied, is_array, plain_number

MAX_CAUSES = 2
MOST = 0.85  # of the wrong values: the rest is another mistake's
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
    why: str = ""  # one paragraph
    source: str = ""  # of the function, under the name that it replaces


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
    path = lab.file("mistakes")
    if not path.exists():
        return Bank(solution, [])
    exec(compile(path.read_bytes(), str(path), "exec"), solution.__dict__)
    mistakes = []
    for name, text in _texts(path).items():
        if "__" not in name.strip("_"):
            continue
        replaces, function = _replaced(name, solution), getattr(solution, name)
        when, _, why = inspect.cleandoc(function.__doc__ or "").partition("\n")
        why, _, named = why.partition("Rejected by:")
        rejected_by = tuple(re.findall(r"\w+", named))
        if not when or not rejected_by:
            raise ValueError(
                f"{path.name}: the docstring of {name} needs a first line that completes 'Your "
                "result is what you get when ...' and a last line 'Rejected by: test_name'"
            )
        why, source = " ".join(why.split()), text.replace(name, replaces)
        mistakes.append(
            Mistake(name, replaces, when.rstrip("."), rejected_by, function, why, source)
        )
    edits = getattr(solution, "EDITS", "")
    return Bank(solution, [*mistakes, *_edited(edits, lab.file("solution"), solution)])


def _replaced(name, solution):
    """The function of the solution that a mistake of this name replaces."""
    replaces = name.split("__")[0]
    if not hasattr(solution, replaces):
        raise ValueError(f"mistakes.py: {name} replaces '{replaces}', which is not in solution.py")
    return replaces


def _texts(path):
    """The text of every function of a file, by its name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {
        node.name: "\n".join(
            lines[min(part.lineno for part in [node, *node.decorator_list]) - 1 : node.end_lineno]
        )
        for node in ast.parse("\n".join(lines)).body
        if isinstance(node, ast.FunctionDef)
    }


def _edited(edits, path, solution):
    """The mistakes of a bank's EDITS, each made from the text of the solution's function."""
    texts, rejected_by = _texts(path), ()
    for entry in re.split(r"\n\s*\n", edits.strip()) if edits else ():
        if entry.startswith("Rejected by:"):
            rejected_by = tuple(re.findall(r"test_\w+", entry))
            continue
        name, when, *rest = entry.splitlines()
        if not rejected_by:
            raise ValueError(f"mistakes.py: no line 'Rejected by: test_name' stands above {name}")
        why = " ".join(itertools.takewhile(lambda line: not line.startswith("    "), rest))
        replaces = _replaced(name, solution)
        source = texts[replaces]
        for old, new in re.findall(r"^ {4}(\S.*?)\s+->  (.+)$", entry, re.MULTILINE):
            if old not in source:
                raise ValueError(f"mistakes.py: {name}: {replaces} of solution.py has no `{old}`")
            source = source.replace(old, new)
        exec(compile(source, str(path), "exec"), solution.__dict__, made := {})
        yield Mistake(name, replaces, when.rstrip("."), rejected_by, made[replaces], why, source)


def find_hint(bank: Bank, calls, further=None) -> str:
    """What a wrong result equals: "your result is what you get when ...", or "" if nothing known.

    calls: (function name, args, kwargs, outcome), outcome as `outcome_of` returns it, newest last.
    The newest call with a wrong value is the failing one, and a mistake that is named does what it
    did. When it also does what the learner's function did in every other call, it is named
    plainly. Where something else is wrong too, it is named with a "maybe": it must then be the
    only one that is right where the learner is right and gives most of the wrong values. A call
    that only raises, or returns None, is no evidence. `further(function)` yields more calls of the
    learner's function, on inputs that the failed check never came to; a mistake of a function that
    is right in all of them is not named.
    """
    recent = [tuple(call) for call in list(calls)[: -RECENT_CALLS - 1 : -1]]
    wrong = (at for at, (name, *call) in enumerate(recent) if _is_wrong(bank.solution, name, call))
    failing = next(wrong, None)
    if failing is None:
        return ""
    name = recent[failing][0]
    made = [rest for function, *rest in recent[failing:] if function == name]
    reached = _reached(bank.solution, name)
    suspects = [m for m in bank.mistakes if m.replaces in reached]
    suspects = [m for m in suspects if _fits(bank, m, name, made[:1])]
    others = {m.replaces for m in suspects} - {name}
    right = {other for other in others if further and _is_right(bank.solution, other, further)}
    suspects = [m for m in suspects if m.replaces not in right]
    more = list(itertools.islice(further(name), FURTHER_CALLS)) if suspects and further else []
    if len(made) + len(more) < FEWEST_CALLS:
        return ""
    certain = _causes([m for m in suspects if _fits(bank, m, name, made + more)], name)
    if 0 < len(certain) <= MAX_CAUSES:
        return "your result is what you get when " + ", or when ".join(certain)
    if certain:
        return ""
    right, wrong = _sorted_out(bank.solution, name, made + more)
    maybe = [
        mistake
        for mistake in suspects
        if _fits(bank, mistake, name, right)
        and sum(_fits(bank, mistake, name, [call]) for call in wrong) > MOST * len(wrong)
    ]
    maybe = _causes(maybe, name)
    if len(wrong) >= FEWEST_CALLS and len(maybe) == 1:
        return f"maybe your result is what you get when {maybe[0]}"
    return ""


def _reached(solution, name):
    """The functions of the solution that calling this one may come to; it is one of them."""
    reached, ahead = set(), [name]
    while ahead:
        if (one := ahead.pop()) in reached:
            continue
        reached.add(one)
        found = inspect.unwrap(getattr(solution, one, None))
        parts = vars(found).values() if isinstance(found, type) else [found]
        codes = [part.__code__ for part in parts if hasattr(part, "__code__")]
        for code in codes:  # of functions within it too
            codes += [part for part in code.co_consts if hasattr(part, "co_names")]
            ahead += code.co_names
    return reached


def _sorted_out(solution, name, calls):
    """The calls with a right value and those with a wrong one; neither, where anything raised."""
    right, wrong = [], []
    for call in calls:
        expected = outcome_of(getattr(solution, name), *call[:2])
        if call[2][0] == expected[0] == "value":
            (right if agree(call[2], expected) else wrong).append(call)
    return right, wrong


def _causes(suspects, name):
    """What these mistakes say, each once; of the function's own alone when there are such."""
    own = [mistake.when for mistake in suspects if mistake.replaces == name]
    return list(dict.fromkeys(own or [mistake.when for mistake in suspects]))


def _is_wrong(solution, name, call):
    kind, value = call[2]
    return kind == "value" and value is not None and not _gives(getattr(solution, name), call)


def _is_right(solution, name, further):
    """Whether the learner's function gives what the solution's gives, in some calls at least."""
    calls = list(itertools.islice(further(name), FURTHER_CALLS))
    return bool(calls) and all(_gives(getattr(solution, name), call) for call in calls)


def _fits(bank, mistake, name, calls):
    with bank.applied(mistake) as wrong:
        return all(_gives(getattr(wrong, name), call) for call in calls)


def _gives(function, call):
    """Whether the function comes to what (args, kwargs, outcome) says."""
    args, kwargs, outcome = call
    return agree(outcome, outcome_of(function, args, kwargs))


def outcome_of(function, args, kwargs):
    """("value", result) or ("raises", exception type name), on copies of the arguments."""
    try:
        return "value", function(*copied(args), **copied(kwargs))
    except Exception as error:
        return "raises", type(error).__name__


def agree(one, other) -> bool:
    """Equal plain values: exact ones exactly, an int like the Fraction; floats relatively."""
    one, other = plain_number(one), plain_number(other)
    if is_array(one) and is_array(other):
        import numpy as np

        if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
            return False
        if one.dtype.kind not in "fc":
            return bool((one == other).all())
        scale = TOLERANCE * float(np.abs(other).max(initial=0.0))
        return bool(np.allclose(one, other, rtol=TOLERANCE, atol=scale, equal_nan=True))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(agree(a, b) for a, b in pairs)
    if isinstance(one, dict) and isinstance(other, dict):
        alike = one.keys() == other.keys()
        return alike and all(agree(one[key], other[key]) for key in one)
    kinds = {type(one), type(other)}
    if kinds <= {int, Fraction}:
        return one == other
    if kinds <= {int, float}:
        return math.isclose(one, other, rel_tol=TOLERANCE) or one != one and other != other
    return len(kinds) == 1 and not is_array(one) and one == other
