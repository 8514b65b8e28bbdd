"""The benchmarks' command lines."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "which lab? such as: make mutation LAB=lab-01\n"),
        (["lab-99"], "LAB='lab-99' is not a lab; there are lab-01-"),
    ],
)
def test_mutation_asks_for_a_lab_in_the_words_of_make(arguments, said):
    command = [sys.executable, str(ROOT / "benchmarks" / "mutation.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and done.stderr.startswith(said) and not done.stdout


def test_mutation_measures_nothing_with_tests_that_fail_anyway():
    command = [sys.executable, str(ROOT / "benchmarks" / "mutation.py"), "lab-01"]
    broken = os.environ | {"PYTEST_ADDOPTS": "--no-such-option"}
    done = subprocess.run(command, env=broken, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "fail before anything is mutated" in done.stderr
    assert "killed" not in done.stdout
