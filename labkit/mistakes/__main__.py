"""The kill table: `python -m labkit.mistakes [LAB]` tries each mistake on a copy of the solution.

It runs the checks that a mistake names and prints which rejected it; exit status 1 if one survives.
"""

import argparse
import contextlib
import io
import sys
from dataclasses import dataclass

import pytest

from labkit.loading import Implementation, Lab, choose_lab, find_labs
from labkit.mistakes.bank import Mistake, load_bank


@dataclass
class Verdict:
    mistake: Mistake
    failed: list[str]  # claims that failed by assertion
    crashed: list[str]  # claims that failed in another way
    hint: str  # the hint a learner would see, '' when none

    @property
    def problem(self) -> str:
        """Why this mistake is not properly rejected; '' when it is."""
        missed = [name for name in self.mistake.rejected_by if name not in self.failed]
        if missed:
            how = "crashed instead of failing" if missed[0] in self.crashed else "passed"
            return f"{missed[0]} {how}"
        if self.hint and self.mistake.when not in self.hint:
            return f"another mistake was named: {self.hint}"
        return ""


def try_mistake(lab: Lab, name: str) -> Verdict:
    """Run the tests that a mistake names on the solution with that mistake in it."""
    bank = load_bank(lab)
    mistake = next(m for m in bank.mistakes if m.name == name)

    class Substitute:
        """Supplies the mutated solution and collects the outcomes."""

        claims = {}

        def pytest_lab_implementation(self, lab, config):
            return Implementation(bank.solution, lab.file("solution"))

        def pytest_runtest_logreport(self, report):
            claim = getattr(report, "claim", None)
            if claim and claim["outcome"] != "passed":
                self.claims.setdefault(claim["name"], claim)

    substitute = Substitute()
    options = ["-q", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    named = [f"{lab.file('test_lab')}::{name}" for name in mistake.rejected_by]
    with bank.applied(mistake), contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main([*named, *options], plugins=[substitute])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise SystemExit(f"{lab.prefix}: the checks that {name} names did not run ({status!r})")
    failed = [n for n, c in substitute.claims.items() if c["outcome"] == "failed"]
    crashed = [n for n in failed if substitute.claims[n]["crashed"]]
    hints = " ".join(c["hint"] for c in substitute.claims.values())
    return Verdict(mistake, [n for n in failed if n not in crashed], crashed, hints)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit.mistakes", description=__doc__)
    parser.add_argument("lab", nargs="*", help="lab-01, ... (default: every lab)")
    chosen = parser.parse_args(arguments).lab
    labs = find_labs()
    try:
        labs = [choose_lab(name, labs) for name in chosen] or labs
    except ValueError as error:
        parser.error(str(error))
    problems = hints = mistakes = 0
    for lab in labs:
        names = [mistake.name for mistake in load_bank(lab).mistakes]
        print(f"{lab.name}: {len(names)} mistakes")
        problems += not names  # an empty bank proves nothing
        for name in names:
            verdict = try_mistake(lab, name)
            problems, mistakes = problems + bool(verdict.problem), mistakes + 1
            hints += bool(verdict.hint)
            shown = "hint" if verdict.hint else "    "
            print(f"  {'SURVIVES' if verdict.problem else 'rejected'} {shown} {name}")
            if verdict.problem:
                print(f"           {verdict.problem}")
            else:
                print(f"                by {', '.join(verdict.mistake.rejected_by)}")
    print(f"{hints} of {mistakes} are named by a hint")
    print(f"{problems} problem(s)" if problems else "every mistake is rejected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
