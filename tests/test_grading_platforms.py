"""The Gradescope autograder and the GitHub Classroom workflow call the tool as it is."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from grading.__main__ import main
from grading.fingerprint import labs_by_prefix
from labkit.loading import ROOT
from tests.test_grading_commands import command, warm  # noqa: F401

LAB = labs_by_prefix()["lab-03"]
AUTOGRADER = ROOT / "grading" / "gradescope" / "run_autograder"
WORKFLOW = ROOT / "grading" / "github-classroom" / "classroom.yml"


def autograde(root, labs="03", **files):
    """Run the autograder as Gradescope would; (exit status, results.json or None)."""
    for folder in ("source", "submission", "results"):
        (root / folder).mkdir()
    (root / "source/course").symlink_to(ROOT)
    (root / "source/LAB").write_text(f"{labs}\n")
    for name, data in files.items():
        place = root / "submission" / name.replace("__", "/").replace("_py", ".py")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    environment = {**os.environ, "AUTOGRADER": str(root), "GRADING_PYTHON": sys.executable}
    done = subprocess.run(
        [AUTOGRADER], env=environment, capture_output=True, text=True, timeout=120
    )
    results = root / "results/results.json"
    return done.returncode, json.loads(results.read_text()) if results.exists() else None


def test_gradescope_gets_a_score(tmp_path):
    solution = LAB.file("solution").read_bytes()
    status, results = autograde(tmp_path, **{"labs__lab-03-tp__starter_py": solution})
    assert status == 0 and results["score"] == 100
    assert sum(test["max_score"] for test in results["tests"]) == 100


@pytest.mark.isolation
@pytest.mark.parametrize(
    "name", ["starter.py", "starter-03.py", "starter-03 (1).py", "lab_3/STARTER.PY"]
)
def test_the_file_is_found_under_every_usual_name(tmp_path, command, name):  # noqa: F811
    """By the command that the autograder's script ends in."""
    place, results = tmp_path / "submission" / name, tmp_path / "results.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(LAB.file("solution").read_bytes())
    submission = tmp_path / "submission"
    status, _ = command("one", submission, "--lab", "03", "--results", results)
    assert status == 0 and json.loads(results.read_text())["score"] == 100


def test_several_labs_are_one_total(tmp_path):
    solution = LAB.file("solution").read_bytes()
    status, results = autograde(
        tmp_path, labs="03 04", **{"starter-03_py": solution, "starter-04_py": b"x = 1\n"}
    )
    assert status == 0 and results["score"] == 100
    assert sum(test["max_score"] for test in results["tests"]) == 200


def test_gradescope_is_told_that_nothing_was_handed_in(tmp_path):
    status, results = autograde(tmp_path, **{"labs__lab-04__starter_py": b"x = 1\n"})
    assert status == 0 and results["score"] == 0
    assert "no starter.py or starter-03.py for lab-03" in results["output"]


def test_a_forged_results_file_in_the_submission_is_no_result(tmp_path):
    forged = b'{"score": 100, "tests": []}'
    files = {"starter_py": LAB.file("starter").read_bytes(), "results.json": forged}
    _, results = autograde(tmp_path, **files)
    assert results["score"] == 0 and results["tests"]


def test_both_use_options_that_exist(capsys):
    text = WORKFLOW.read_text() + AUTOGRADER.read_text()
    used = set(re.findall(r"(?<=\s)--[a-z-]+", re.sub(r"(?m)^.*(apt|pip|actions/).*$", "", text)))
    for verb in ("run", "one", "doctor"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
    offered = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert used and used <= offered


def test_scripts_are_valid_shell():
    for name in ("run_autograder", "setup.sh"):
        path = AUTOGRADER.with_name(name)
        assert os.access(path, os.X_OK)
        subprocess.run(shlex.split(f"bash -n {path}"), check=True)
