"""The lab's programs on the learner's own functions: who holds what, and what they write."""

import pytest

from labkit.loading import choose_lab, find_labs
from labkit.starters import copy_course
from tests.conftest import ROOT, as_recorded, python

LAB = choose_lab("lab-01", find_labs(ROOT))


def draw(*arguments, impl="solution", program="who_holds_what.py", lab=LAB):
    path = f"{ROOT}:{lab.path.parent}"
    return python(lab.path / program, *arguments, LAB_IMPL=impl, PYTHONPATH=path)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_every_rank_holds_its_block_and_kv_heads_are_copied(ranks):
    drawn = draw("--ranks", str(ranks), "--heads", "8", "--kv-heads", "2")
    says, *lines = drawn.stdout.splitlines()
    assert says == "by the reference, solution.py of lab 01 (LAB_IMPL=starter runs yours)"
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


@pytest.mark.parametrize("ranks", [1, 4, 8])
def test_the_ranks_write_what_one_machine_writes(ranks):
    written = draw("no rank ", "--ranks", str(ranks), "--letters", "60", program="generate.py")
    assert written.returncode == 0, written.stderr
    assert "60 of 60 letters are those that one machine writes" in written.stdout
    assert f"met {4 if ranks > 1 else 0} times per letter" in written.stdout
    text = written.stdout.split("Wo\n")[1].split("\n\n")[1].split()
    known = set((LAB.path / "captures" / "tiny-model" / "text.txt").read_text().split())
    assert len(known.intersection(text)) > len(text) / 2  # it writes words


def test_a_wrong_rank_writes_another_letter_and_is_told_so(tmp_path):
    (copy,) = copy_course(tmp_path, LAB)
    text = copy.file("solution").read_text()
    wrong = text.replace("for mine in hidden])[0]", "for mine in hidden])[0] / num_ranks")
    assert wrong != text
    copy.file("starter").write_text(wrong)
    written = draw("no rank ", "--letters", "40", impl="starter", program="generate.py", lab=copy)
    assert written.returncode == 1 and "is another than one machine writes" in written.stdout
    todo = draw(impl="starter", program="generate.py")
    assert todo.returncode == 2 and "yours to write" in todo.stderr
    unknown = draw("42", program="generate.py")
    assert unknown.returncode == 2 and "begin with some of these" in unknown.stderr


def test_the_tiny_model_is_as_it_was_recorded():
    folder = LAB.path / "captures" / "tiny-model"
    record = as_recorded(folder)
    assert (folder / "weights.npz").stat().st_size < 200_000
    assert record["command"].startswith("python train.py")
