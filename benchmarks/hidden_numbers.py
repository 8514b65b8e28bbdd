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
        for number in range(self.secrets):
            if (child := os.fork()) == 0:
                self.number = number
                mix_in(hashlib.sha256(b"%d" % number).digest())
                return None  # and pytest goes on to its own loop
            os.waitpid(child, 0)
        os._exit(0)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(f"secret {self.number}: {report.nodeid}\n{report.longrepr}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self):
        print(*self.failed, sep="\n", end="\n" * bool(self.failed), file=sys.__stderr__, flush=True)
        os._exit(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("labs", nargs="*", metavar="LAB")
    parser.add_argument("--secrets", type=int, default=200)
    options = parser.parse_args()
    os.environ["LAB_IMPL"] = "solution"
    labs = find_labs()
    for lab in [choose_lab(name, labs) for name in options.labs] or labs:
        print(lab.prefix, flush=True)
        if (child := os.fork()) == 0:
            words = ["-q", "-pno:cacheprovider", "-mnot vllm and not torch and not gpu"]
            sys.stdout = open(os.devnull, "w")
            pytest.main([*words, str(lab.path)], plugins=[Forks(options.secrets)])
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
