"""The mistakes bank: plausible wrong implementations, each rejected by the check it violates.

A lab's mistakes.py holds one function per mistake, `<function>__<what_is_wrong>`. The docstring's
first line completes "Your result is what you get when ..."; its last paragraph is
`Rejected by: test_a, test_b`. The bank is executed on top of the solution's namespace.

`python -m labkit.mistakes [LAB]` applies each mistake to a copy of the solution, runs the tests it
names and prints which check rejected it; exit status 1 if one survives.
"""

import argparse
import contextlib
import copy
import io
import re
import sys
import textwrap
from dataclasses import dataclass

from labkit.loading import Lab, choose_lab, find_labs, load_module
from labkit.values import agree

MAX_CAUSES = 3
TOLERANCE = 1e-9  # relative; a mistake is applied to the same arguments


@dataclass(frozen=True)
class Mistake:
    """One wrong implementation of `replaces`."""

    name: str
    replaces: str
    when: str  # completes "your result is what you get when ..."
    rejected_by: tuple[str, ...]
    function: object


@dataclass
class Bank:
    """A lab's mistakes, living in the namespace of one copy of its solution."""

    solution: object
    mistakes: list[Mistake]

    def apply(self, mistake: Mistake) -> None:
        """Put the mistake in the place of the function it replaces."""
        setattr(self.solution, mistake.replaces, mistake.function)


def read_bank(lab: Lab) -> Bank:
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


def find_hint(lab: Lab, calls) -> str:
    """What a wrong result equals: 'your result is what you get when ...', or '' if nothing known.

    calls: (function name, args, kwargs, outcome), outcome as `outcome_of` returns it, newest last.
    A mistake is named when it does what the learner's function did in every one of them, and gave
    a wrong value in one: a call that only raises is no evidence, many causes end in a TypeError.
    """
    bank = read_bank(lab)
    solution = bank.solution
    by_function = {}
    for name, *call in reversed(list(calls)):
        by_function.setdefault(name, []).append(call)
    for name, made in by_function.items():

        def does_the_same(call, name=name):
            args, kwargs, outcome = call
            return agree(outcome, outcome_of(getattr(solution, name), args, kwargs), TOLERANCE)

        if not any(call[2][0] == "value" and not does_the_same(call) for call in made):
            continue
        own, others = [], []
        for mistake in bank.mistakes:
            right = getattr(solution, mistake.replaces)
            bank.apply(mistake)  # a wrong helper makes the functions that call it wrong too
            if all(map(does_the_same, made)):
                (own if mistake.replaces == name else others).append(mistake.when)
            setattr(solution, mistake.replaces, right)
        causes = list(dict.fromkeys(own or others))
        if 0 < len(causes) <= MAX_CAUSES:  # a hint that names many causes names none
            return "your result is what you get when " + ", or when ".join(causes)
    return ""


def outcome_of(function, args, kwargs):
    """("value", result) or ("raises", exception type name), on copies of the arguments."""
    try:
        return "value", function(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    except Exception as error:
        return "raises", type(error).__name__


# --- the kill table ---------------------------------------------------------------------------


@dataclass
class Verdict:
    mistake: Mistake
    failed: list[str]  # claims that failed by assertion
    crashed: list[str]  # claims that failed in another way
    hint: str  # the hint a learner would see, '' when none
    wrong_value: bool  # a recorded call returned something else than the solution does

    @property
    def problem(self) -> str:
        """Why this mistake is not properly rejected; '' when it is."""
        missed = [name for name in self.mistake.rejected_by if name not in self.failed]
        if missed:
            how = "crashed instead of failing" if missed[0] in self.crashed else "passed"
            return f"{missed[0]} {how}"
        if self.wrong_value and self.mistake.when not in self.hint:
            return "its value differs, yet the hint was not shown"
        return ""


def try_mistake(lab: Lab, name: str) -> Verdict:
    """Run the tests that a mistake names on the solution with that mistake in it."""
    import pytest

    from labkit.plugin import Implementation

    bank = read_bank(lab)
    mistake = next(m for m in bank.mistakes if m.name == name)
    bank.apply(mistake)
    pristine = load_module(lab.file("solution"))

    class Substitute:
        """Supplies the mutated solution and collects the outcomes."""

        claims = {}
        wrong_value = False

        def pytest_lab_implementation(self, lab, config):
            return Implementation(bank.solution, lab.file("solution"))

        def pytest_runtest_logreport(self, report):
            claim = getattr(report, "claim", None)
            if claim and claim["outcome"] != "passed":
                self.claims.setdefault(claim["name"], claim)

        def pytest_lab_calls(self, calls):
            for name, args, kwargs, outcome in calls:
                right = outcome_of(getattr(pristine, name), args, kwargs)
                if outcome[0] == "value" and not agree(outcome, right, TOLERANCE):
                    type(self).wrong_value = True

    substitute = Substitute()
    options = ["-q", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    named = [f"{lab.file('test_lab')}::{name}" for name in mistake.rejected_by]
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main([*named, *options], plugins=[substitute])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"{lab.prefix}: the checks that {name} names did not run ({status!r})")
    failed = [n for n, c in substitute.claims.items() if c["outcome"] == "failed"]
    crashed = [n for n in failed if substitute.claims[n]["crashed"]]
    hints = " ".join(c["hint"] for c in substitute.claims.values())
    return Verdict(
        mistake,
        [n for n in failed if n not in crashed],
        crashed,
        hints,
        substitute.wrong_value,
    )


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit.mistakes", description=__doc__)
    parser.add_argument("lab", nargs="*", help="lab-01, ... (default: every lab)")
    chosen = parser.parse_args(arguments).lab
    labs = find_labs()
    try:
        labs = [choose_lab(name, labs) for name in chosen] or labs
    except ValueError as error:
        parser.error(str(error))
    problems = 0
    for lab in labs:
        names = [mistake.name for mistake in read_bank(lab).mistakes]
        print(f"{lab.name}: {len(names)} mistakes")
        problems += not names  # an empty bank proves nothing
        for name in names:
            verdict = try_mistake(lab, name)
            problems += bool(verdict.problem)
            shown = "hint" if verdict.wrong_value else "    "
            print(f"  {'SURVIVES' if verdict.problem else 'rejected'} {shown} {name}")
            if verdict.problem:
                print(f"           {verdict.problem}")
            else:
                print(f"                by {', '.join(verdict.mistake.rejected_by)}")
    print(f"{problems} problem(s)" if problems else "every mistake is rejected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
