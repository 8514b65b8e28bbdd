"""One source: every starter is what its solution derives, imports cleanly, and is all `todo`."""

import inspect
import json
import os
import re
import shutil

import pytest

from labkit.claims import claims_in, points_of_tasks
from labkit.loading import Lab, find_labs, load_module
from labkit.starters import derive, first_readme, is_edited, readme, write
from labkit.tasks import task_of_check
from tests.conftest import LAB_01, LABS, ROOT, Course

LABS_HERE = find_labs(ROOT)
each_lab = pytest.mark.parametrize("lab", LABS_HERE, ids=lambda lab: lab.prefix)


def functions_of(module):
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }


def test_there_are_labs():
    assert "lab-01-tp-sharding-math" in [lab.name for lab in LABS_HERE]


@each_lab
def test_the_starter_is_what_the_solution_derives(lab):
    text = lab.file("starter").read_text(encoding="utf-8")
    if is_edited(text) and "CI" not in os.environ:
        pytest.skip(
            f"{lab.prefix}/starter.py is your own work by now; it is compared when untouched"
        )
    assert text == derive(lab), "run `make starters`"


@each_lab
def test_the_starter_has_the_solutions_signatures_and_docstrings(lab, tmp_path):
    skipped = shutil.ignore_patterns("__pycache__", "captures", "tensor_parallel_toy")
    path = shutil.copytree(lab.path, tmp_path / lab.name, ignore=skipped) / "starter.py"
    path.write_text(derive(lab), encoding="utf-8")
    solution = functions_of(load_module(lab.file("solution")))  # its folder holds given modules
    starter = functions_of(load_module(path))
    assert starter and set(starter) <= set(solution)
    assert all(name.startswith("_") for name in set(solution) - set(starter))
    for name, function in starter.items():
        assert inspect.signature(function) == inspect.signature(solution[name]), name
        assert function.__doc__ == solution[name].__doc__, name


@each_lab
def test_a_fresh_starter_is_all_todo_on_one_screen(lab, tmp_path):
    """No claim passes, none fails: each is `todo`, or needs what this machine lacks."""
    course = Course(tmp_path, lab.path.relative_to(ROOT))
    run = course.pytest(lab.prefix, "--scores", "scores.json", impl="starter")
    (scores,) = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))["labs"]
    outcomes = {claim["name"]: claim["outcome"] for claim in scores["claims"]}
    assert run.status == 1
    assert "todo" in outcomes.values()
    others = {n: outcome for n, outcome in outcomes.items() if outcome not in ("todo", "not_run")}
    assert not others
    assert scores["points"]["earned"] == 0
    lines = run.text.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24 + list(outcomes.values()).count("not_run"), "one line more for a reason"


@each_lab
def test_points_sum_to_100_and_claims_fit_the_screen(lab):
    """Read off the test file itself, so that no tier can hide a claim."""
    claims, text = claims_in(lab), lab.file("test_lab").read_text(encoding="utf-8")
    names = re.findall(r"(?m)^def (test_\w+)", text)
    assert [claim.name for claim in claims] == names, "each has its points"
    for claim in claims:
        assert set(claim.marks.get("waits_for", ())) <= set(names), f"{claim.name} waits for none"
        assert claim.text != claim.name and len(claim.text) <= 100, f"{claim.name}: its claim"
        assert task_of_check(lab, claim.name), f"{claim.name} is named after none of the functions"
    points = sum(points_of_tasks(lab).values())
    assert points == sum(claim.points for claim in claims) == 100


def test_a_starter_that_was_edited_is_kept(course):
    lab = Lab(course.lab)
    course.starter.write_text(course.starter.read_text(encoding="utf-8") + "\n# mine\n")
    assert write(lab).startswith("kept")
    assert course.starter.read_text(encoding="utf-8").endswith("# mine\n")
    assert write(lab, force=True) == "written" and write(lab) == "current"


def test_an_untouched_starter_follows_its_solution(course):
    lab = Lab(course.lab)
    solution = course.lab / "solution.py"
    solution.write_text(
        solution.read_text(encoding="utf-8").replace("in rank order.", "in ascending order.")
    )
    assert not is_edited(course.starter.read_text(encoding="utf-8"))
    assert write(lab) == "written"
    assert "in ascending order." in course.starter.read_text(encoding="utf-8")
    assert write(lab) == "current"


def test_every_readme_has_its_table_of_tasks_and_the_first_one_its_screen():
    for old, new in (first_readme(), *(readme(lab) for lab in find_labs(ROOT))):
        assert old == new, "make starters writes them"
    assert "FAILED" in first_readme()[0]


def test_the_stub_names_the_task_and_the_size_of_the_gap():
    text = derive(Lab(ROOT / LAB_01))
    assert '"lab-01 · row_parallel is yours to write (about 2 lines). "' in text
    assert '"The book (make book) says more: lab-01, task 3"' in text
    assert "SOLUTION" not in text


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def f():\n    # BEGIN SOLUTION (task 1)\n    return 1\n", "has no end"),
        ("def f():\n    # END SOLUTION\n", "without a beginning"),
        ("def f():\n    # BEGIN SOLUTION (task 1)\n    # BEGIN SOLUTION (task 2)\n", "inside"),
        ("def f():\n    # BEGIN SOLUTION\n    return 1\n    # END SOLUTION\n", "needs its task"),
        ("def f():\n    return 1\n", "no BEGIN SOLUTION"),
    ],
)
def test_misplaced_markers_are_refused(tmp_path, source, complaint):
    folder = tmp_path / LABS / "lab-08-x"
    folder.mkdir(parents=True)
    (folder / "solution.py").write_text(source, encoding="utf-8")
    with pytest.raises(ValueError, match=complaint):
        derive(Lab(folder))


def test_a_private_helper_of_the_solution_does_not_reach_the_starter(tmp_path):
    folder = tmp_path / LABS / "lab-08-x"
    folder.mkdir(parents=True)
    source = (
        "import math\n\n\n# BEGIN SOLUTION\ndef _helper():\n    return 1\n# END SOLUTION\n\n\n"
        "def f():\n    # BEGIN SOLUTION (task 1)\n    return _helper()\n    # END SOLUTION\n"
    )
    (folder / "solution.py").write_text(source, encoding="utf-8")
    text = derive(Lab(folder))
    assert "_helper" not in text and "import math\n\n\ndef f():" in text
