"""Whether the solutions keep all points whatever a secret draws: more of them than CI has time for.

    python benchmarks/hidden_numbers.py [--secrets 200] [LAB...]

One pytest of each lab is collected once and forked for each secret, without a cell; a check that
fails is printed with its secret's number. Some 200 secrets take four minutes for lab 05.
"""

import argparse
import hashlib
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from grading.proxy import mix_in  # noqa: E402
from labkit.loading import choose_lab, find_labs  # noqa: E402


class Forks:
    """A pytest plugin: the whole run again for each secret."""

    def __init__(self, secrets):
        self.secrets, self.number, self.failed = secrets, None, []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self):
        wrong = 0
        for number in range(self.secrets):
            if (child := os.fork()) == 0:
                self.number = number
                mix_in(hashlib.sha256(b"%d" % number).digest())
                return None  # and pytest goes on to its own loop
            wrong += os.waitpid(child, 0)[1] != 0
        os._exit(wrong > 0)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(f"secret {self.number}: {report.nodeid}\n{report.longrepr}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, exitstatus):
        print(*self.failed, sep="\n", end="\n" * bool(self.failed), file=sys.__stderr__, flush=True)
        os._exit(exitstatus)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("labs", nargs="*", metavar="LAB")
    parser.add_argument("--secrets", type=int, default=200)
    options = parser.parse_args()
    os.environ["LAB_IMPL"] = "solution"
    labs, wrong = find_labs(), []
    try:
        chosen = [choose_lab(name, labs) for name in options.labs] or labs
    except ValueError as error:
        parser.error(str(error))
    for lab in chosen:
        print(lab.prefix, flush=True)
        if (child := os.fork()) == 0:
            words = ["-q", "-pno:cacheprovider", "-mnot vllm and not torch and not gpu"]
            sys.stdout = open(os.devnull, "w")
            pytest.main([*words, str(lab.path)], plugins=[Forks(options.secrets)])
        if os.waitpid(child, 0)[1]:
            wrong.append(lab.prefix)
    sys.exit(f"not all points: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
