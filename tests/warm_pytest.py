"""`python -m pytest` in a copy of the course, by forks of a process that has imported pytest."""

import os
import sys

import numpy  # noqa: F401  what every lab imports
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
OWN, BEGAN = os.path.dirname(HERE), os.getcwd()


def main():
    for name in [name for name in sys.modules if name.partition(".")[0] == "labkit"]:
        del sys.modules[name]  # of this checkout: the copy has its own
    folder, *arguments = sys.argv[1:]
    os.chdir(folder)
    others = [path for path in sys.path if path not in (HERE, OWN, BEGAN)]
    sys.path[:] = [folder, *others, OWN]  # this checkout last, as an environment has it
    sys.argv = ["pytest", *arguments]
    sys.exit(pytest.console_main())
