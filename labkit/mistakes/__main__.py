"""The kill table: `python -m labkit.mistakes [LAB]` tries each mistake on a copy of the solution.

It runs the checks that a mistake names and prints which rejected it; exit status 1 if one survives.
"""

import argparse
import contextlib
import io
import sys
from collections import defaultdict
from dataclasses import dataclass

import pytest

from labkit.loading import Implementation, Lab, choose_lab, find_labs
from labkit.mistakes import Bank, Mistake, load_bank
from labkit.session import STATE


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


class Bench:
    """A pytest plugin: collects a lab's checks once and runs, for each mistake, those it names."""

    def __init__(self, bank: Bank, lab: Lab, mistakes: list[Mistake]):
        self.implementation = Implementation(bank.solution, lab.file("solution"))
        self.bank, self.mistakes = bank, mistakes
        self.claims, self.verdicts = {}, []

    def pytest_lab_implementation(self, lab, config):
        return self.implementation

    def pytest_runtest_logreport(self, report):
        claim = getattr(report, "claim", None)
        if claim and claim["outcome"] != "passed":
            self.claims.setdefault(claim["name"], claim)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        state, cases = session.config.stash[STATE], defaultdict(list)
        for item in session.items:
            cases[item.originalname].append(item)
        for mistake in self.mistakes:
            if unknown := [name for name in mistake.rejected_by if name not in cases]:
                raise pytest.UsageError(f"{mistake.name} names {unknown[0]}, which is no check")
            self.claims.clear()
            state.out_of_time.clear()
            state.hinted.clear()
            state.items = [item for name in mistake.rejected_by for item in cases[name]]
            with self.bank.applied(mistake):
                for item in state.items:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            self.verdicts.append(self._verdict(mistake))
        return True

    def _verdict(self, mistake):
        failed = [name for name, claim in self.claims.items() if claim["outcome"] == "failed"]
        crashed = [name for name in failed if self.claims[name]["crashed"]]
        hints = " ".join(claim["hint"] for claim in self.claims.values())
        return Verdict(mistake, [n for n in failed if n not in crashed], crashed, hints)


def try_mistakes(lab: Lab, *names: str) -> list[Verdict]:
    """Run the checks that each mistake names on the solution with that mistake in it.

    names: of the mistakes; the whole bank by default.
    """
    bank = load_bank(lab)
    mistakes = [mistake for mistake in bank.mistakes if not names or mistake.name in names]
    bench = Bench(bank, lab, mistakes)
    options = ["-q", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
    with contextlib.redirect_stdout(io.StringIO()):
        status = pytest.main([str(lab.file("test_lab")), *options], plugins=[bench])
    if len(bench.verdicts) < len(mistakes):
        raise SystemExit(
            f"{lab.prefix}: the checks that the mistakes name did not run ({status!r})"
        )
    return bench.verdicts


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
        verdicts = try_mistakes(lab)
        print(f"{lab.name}: {len(verdicts)} mistakes")
        problems += not verdicts  # an empty bank proves nothing
        for verdict in verdicts:
            problems, mistakes = problems + bool(verdict.problem), mistakes + 1
            hints += bool(verdict.hint)
            shown = "hint" if verdict.hint else "    "
            outcome = "SURVIVES" if verdict.problem else "rejected"
            print(f"  {outcome} {shown} {verdict.mistake.name}")
            if verdict.problem:
                print(f"           {verdict.problem}")
            else:
                print(f"                by {', '.join(verdict.mistake.rejected_by)}")
    print(f"{hints} of {mistakes} are named by a hint")
    print(f"{problems} problem(s)" if problems else "every mistake is rejected")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
