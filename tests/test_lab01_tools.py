"""The picture of who holds what, drawn by the learner's own functions."""

import os
import subprocess
import sys

import pytest

from labkit.loading import choose_lab, find_labs
from tests.conftest import ROOT

LAB = choose_lab("lab-01", find_labs(ROOT))


def draw(*arguments, impl="solution"):
    return subprocess.run(
        [sys.executable, LAB.path / "who_holds_what.py", *arguments],
        env=os.environ | {"LAB_IMPL": impl, "PYTHONPATH": f"{ROOT}:{LAB.path.parent}"},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_every_rank_holds_its_block_and_kv_heads_are_copied(ranks):
    lines = draw("--ranks", str(ranks), "--heads", "8", "--kv-heads", "2").stdout.splitlines()
    assert len(lines) == ranks + 1
    cells = [line.split()[2:] for line in lines[1:]]
    for column in (0, 1, 3):  # each unit and head is held once
        held = [letter for row in cells for letter in row[column] if letter != "."]
        assert held == sorted(set(held))
    assert [len(row[2].replace(".", "")) for row in cells] == [max(1, 2 // ranks)] * ranks


def test_an_impossible_split_and_an_unwritten_function_are_sentences():
    uneven = draw("--ranks", "3")
    assert uneven.returncode == 2 and "num_heads=8 is not divisible" in uneven.stderr
    todo = draw(impl="starter")
    assert todo.returncode == 2 and "yours to write" in todo.stderr
    assert "Traceback" not in uneven.stderr + todo.stderr
