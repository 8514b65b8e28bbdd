"""`python -m grading` as an instructor types it: on a class, again, killed, and in a bad place."""

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grading import commands
from grading.__main__ import main
from grading.cell import Limits, NoCell
from grading.gradebook import Gradebook, labs
from labkit.loading import ROOT
from labkit.plugin import CHECK_S
from tests import class_of_20
from tests.test_grading_exports import entry
from tests.test_grading_handins import CODE
from tests.test_grading_handins import write as write_same

SOLUTION = labs()["lab-01"].file("solution").read_bytes()


def write(root, *paths, data=None):
    """Files that differ, for the same file is graded once."""
    for path in paths:
        write_same(root, path, data=data or f"x = 1  # {path}\n".encode())


@pytest.fixture
def graded(monkeypatch):
    """Points without a cell: by the length of the file; the names of what was graded."""
    names = []

    def grade(source, lab, *, secret):
        names.append(source.stem)
        data = source.read_bytes()
        about = {"notes": [], "sha256": hashlib.sha256(data).hexdigest()}
        return entry(len(data) % 101) | about

    monkeypatch.setattr(commands, "grade", grade)
    return names


def run(*arguments):
    return main([str(argument) for argument in arguments])


def grading(*arguments, cwd=ROOT, **environment):
    command = [sys.executable, "-m", "grading", *map(str, arguments)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | environment
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_class_from_its_export_to_its_tables(graded, tmp_path, capsys):
    place = class_of_20.write(tmp_path, "canvas")
    write(tmp_path, "grades/roster.csv", data=class_of_20.roster().encode())
    status = run("run", place, "--out", tmp_path / "grades")
    said = capsys.readouterr().out
    assert status == 1 and "18 hand-ins found" in said
    assert "look  Ng, Kim: lab-01: no starter.py or starter-NN.py; there is answer.ipynb" in said
    assert "1 line above needs a look" in said and "(9 different files)" in said
    assert len(graded) == 9  # the same file once
    files = "grades.csv claims.csv canvas.csv moodle.csv html/index.html feedback/lab-01-canvas.zip"
    assert all((tmp_path / "grades" / name).stat().st_size for name in files.split())
    assert len(list((tmp_path / "grades/html").iterdir())) == 21  # with who handed in nothing


def test_only_what_changed_is_graded_again(graded, tmp_path):
    place, out = tmp_path / "in", tmp_path / "grades"
    write(place, "ada/starter-01.py", "bo/starter-01.py", "cy/starter-03.py")
    assert run("run", place, "--out", out) == 0 and sorted(graded) == ["ada", "bo", "cy"]
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert run("run", place, "--out", out) == 0 and len(graded) == 3
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    write(place, "ada/starter-01.py", data=b"x = 2\n")
    (out / "lab-01/bo.json").unlink()  # rm is forget
    (out / "lab-03/cy.json").write_text("{}")  # no record of ours
    assert run("run", place, "--out", out) == 0 and sorted(graded[3:]) == ["ada", "bo", "cy"]
    (out / "secret").write_text("ab" * 16)
    run("run", place, "--out", out)
    assert len(graded) == 9


def test_a_changed_lab_makes_its_grades_stale(graded, tmp_path, monkeypatch):
    write(tmp_path / "in", "ada/starter-01.py", "ada/starter-03.py")
    digests = {"lab-01": "a", "lab-03": "b"}
    monkeypatch.setattr("grading.gradebook.course_digest", lambda prefix: digests[prefix])
    for changed, times in (("a", 2), ("a", 2), ("c", 3)):
        digests["lab-01"] = changed
        run("run", tmp_path / "in", "--out", tmp_path / "grades")
        assert len(graded) == times


def test_what_an_earlier_run_found_is_kept_and_told(graded, tmp_path, capsys):
    write(tmp_path / "one", "ada/starter-01.py", "bo/starter-01.py")
    write(tmp_path / "two", "ada/starter-01.py", "ada/starter-03.py")
    write(tmp_path / "three", "ada/starter-03.py")
    for name, told in (("one", 0), ("three", 0), ("two", 1)):
        run("run", tmp_path / name, "--out", tmp_path / "grades")
        assert capsys.readouterr().out.count("is kept from an earlier run") == told
    assert set(Gradebook(tmp_path / "grades").records()) == {"ada", "bo"}


SLOW = """
import sys, time
from grading import commands
from grading.__main__ import main
from tests.test_grading_exports import entry
def grade(source, lab, *, secret):
    print("graded", source.stem, flush=True)
    time.sleep(0.05)
    return entry() | {"notes": []}
commands.grade = grade
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("at", [1, 4, 9])
def test_a_killed_run_loses_at_most_what_it_was_at(at, tmp_path):
    write(tmp_path / "in", *(f"s{n}/starter-01.py" for n in range(12)))
    out = tmp_path / "grades"
    words = [sys.executable, "-c", SLOW, "run", tmp_path / "in", "--out", out, "--workers", "1"]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        lines = (line for line in process.stdout if line.startswith("graded"))
        for _ in range(at):
            next(lines)
        process.send_signal(signal.SIGKILL)
    records = Gradebook(out).records()  # every file there is whole
    assert len(records) >= at - 1
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    again = [line for line in done.stdout.splitlines() if line.startswith("graded")]
    assert done.returncode == 0 and len(again) == 12 - len(records)
    assert len(Gradebook(out).records()) == 12
    assert not list(out.rglob("*.part")) or at


def test_what_the_grader_failed_on_is_no_zero(tmp_path, monkeypatch, capsys):
    def grade(source, lab, *, secret):
        if source.stem == "bo":
            raise RuntimeError("the disk is full")
        return entry() | {"notes": []}

    monkeypatch.setattr(commands, "grade", grade)
    write(tmp_path / "in", "ada/starter-01.py", "bo/starter-01.py")
    assert run("run", tmp_path / "in", "--out", tmp_path / "grades") == 1
    assert set(Gradebook(tmp_path / "grades").records()) == {"ada"}
    page = (tmp_path / "grades/html/index.html").read_text(encoding="utf-8")
    assert "the grader itself failed, so there is no score: the disk is full" in page
    one = tmp_path / "in/bo", "--student", "bo", "--out", tmp_path / "g", "--gradescope", "r.json"
    assert run("run", *one) == 2 and "the disk is full" in capsys.readouterr().err


def test_a_machine_without_a_cell_says_so_and_grades_nobody(tmp_path, monkeypatch, capsys):
    def grade(source, lab, *, secret):
        raise NoCell("install bubblewrap")

    monkeypatch.setattr(commands, "grade", grade)
    write(tmp_path / "in", "ada/starter-01.py")
    assert run("run", tmp_path / "in", "--out", tmp_path / "grades") == 2
    assert capsys.readouterr().err == "grading: install bubblewrap\n"
    assert not Gradebook(tmp_path / "grades").records()


def test_a_group_is_graded_once_and_each_member_has_the_mark(graded, tmp_path):
    out = tmp_path / "grades"
    write(tmp_path / "in", "Ada/starter-01.py", "Dee/starter-01.py", "g2/starter-01.py")
    text = "name,group\nAda,g1\nBo,g1\nDee,\nEve,g2\n"
    write(out, "roster.csv", data=text.encode())
    assert run("run", tmp_path / "in", "--out", out) == 0  # g2 is on no roster, but Eve's group
    records = Gradebook(out).records()
    assert set(records) == {"Ada", "Bo", "Dee", "Eve"} and sorted(graded) == ["Ada", "Dee", "Eve"]
    assert records["Bo"]["lab-01"]["labs"] == records["Ada"]["lab-01"]["labs"]
    assert records["Bo"]["lab-01"]["notes"] == ["handed in by Ada for the group g1"]


def test_nobody_gets_the_mark_of_a_path_that_reads_alike(graded, tmp_path):
    write(tmp_path / "in", "ada/starter-01.py", data=CODE)
    write(tmp_path / "in", "ada\u200b/starter-01.py", data=b"xyz = 1234\n")
    assert run("run", tmp_path / "in", "--out", tmp_path / "grades") == 1
    rows = Gradebook(tmp_path / "grades").records().values()
    assert sorted(row["lab-01"]["labs"][0]["points"]["earned"] for row in rows) == [6, 11]


def test_who_left_the_course_is_in_no_table(graded, tmp_path, capsys):
    out = tmp_path / "grades"
    write(tmp_path / "in", "Ada/starter-01.py", "Bo/starter-01.py")
    run("run", tmp_path / "in", "--out", out)
    write(out, "roster.csv", data=b"name\nAda\n")
    write(out, "adjust.csv", data=b"student,lab,points,why\nAda,01,-3,late\nBo,01,5,x\n")
    shutil.rmtree(tmp_path / "in/Bo")
    assert run("run", tmp_path / "in", "--out", out) == 1
    assert "adjust.csv line 3: 'Bo' is no student here" in capsys.readouterr().out
    assert "Bo" not in (out / "grades.csv").read_text(encoding="utf-8-sig")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere"], "nowhere does not exist; give the folder or zip file"),
        (["run", "in", "--lab", "07"], "'07': no such lab; there are lab-01, lab-02"),
        (["run", "in", "--deadline", "tomorrow"], "tomorrow is no time for a deadline"),
        (["run", "in", "--pattern", "x"], "it needs the groups"),
        (["run", "empty"], "no hand-in in empty"),
        (["run", "in", "--gradescope", "r.json"], "a result is one student's"),
        (["show", "Ada"], "no grades in grades; `python -m grading run` makes some"),
        (["questions"], "no grades in grades"),
    ],
)
def test_a_wrong_usage_is_one_sentence(arguments, words, graded, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "in/ada/starter-01.py", "in/bo/starter-01.py")
    (tmp_path / "empty").mkdir()
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("grading: ") and words in err and err.count("\n") == 1


def test_show_says_why_in_either_order_of_a_name(graded, tmp_path, capsys):
    write(tmp_path / "in", "Doe, Jane/starter-01.py", "Poe, Bo/starter-01.py", data=CODE)
    run("run", tmp_path / "in", "--out", tmp_path / "grades")
    capsys.readouterr()
    for name in ("Jane Doe", "Doe, Jane", "jane", "Doe"):
        assert run("show", name, "01", "--out", tmp_path / "grades") == 0
        out = capsys.readouterr().out
        assert out.startswith("Doe, Jane\nlab-01: 6 of 100 points") and "test_two holds" in out
        assert "lab-01/Doe, Jane.json, the program beside it" in out
    assert run("show", "oe", "--out", tmp_path / "grades") == 2
    assert "'oe' could be Doe, Jane, Poe, Bo" in capsys.readouterr().err


# --- in a bad place ----------------------------------------------------------------------------

HOSTILE = 'import pathlib; pathlib.Path(__file__ + ".ran").touch()\n'
MODULES = "rich bisect json sqlite3 argparse numpy pytest labkit csv zipfile threading runpy re"


def test_nothing_is_imported_from_the_folder_of_hand_ins(tmp_path):
    """Neither by the tool nor by a process that it starts, wherever it is typed."""
    for name in [*MODULES.split(), "sitecustomize", "conftest", "grading_plugin"]:
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p conftest\n")
    write(tmp_path, "ada/starter-01.py")
    course = f"{ROOT}:{ROOT}/phase-10-distributed-inference/labs"
    safe = {"PYTHONPATH": os.environ.get("PYTHONPATH", course)}
    done = grading("run", ".", cwd=tmp_path, **safe)
    assert done.returncode == 2 and "--out grades lies within the hand-ins" in done.stderr
    out = tmp_path.parent / f"{tmp_path.name}-grades"
    done = grading("run", ".", "--out", out, cwd=tmp_path, **safe)
    assert "1 hand-in found" in done.stdout, done.stderr
    assert not list(tmp_path.rglob("*.ran"))


def test_a_hand_in_called_grading_is_not_the_tool(tmp_path):
    """course.pth imports the tool before Python looks into the folder in which it is typed."""
    write(tmp_path, "grading/__main__.py", "grading/__init__.py", data=HOSTILE.encode())
    line = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import grading; sys.path.pop(0)"
    code = f"{line}; sys.path.insert(0, ''); import runpy; sys.argv = ['x', 'show', 'x']; "
    code += "runpy.run_module('grading', run_name='__main__', alter_sys=True)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60, capture_output=True)
    assert not list(tmp_path.rglob("*.ran"))
    assert "import grading" in (ROOT / "Makefile").read_text(encoding="utf-8")


# --- with a real cell --------------------------------------------------------------------------


@pytest.mark.isolation
def test_real_points_of_real_hand_ins(tmp_path):
    programs = class_of_20.programs()
    for kind in ("solved", "untouched", "averaged", "syntax", "BOM"):
        write(tmp_path / "in", f"{kind}/starter-01.py", data=programs[kind])
    done = grading("run", tmp_path / "in", "--out", tmp_path / "grades")
    assert done.returncode == 0, done.stderr
    records = Gradebook(tmp_path / "grades").records()
    points = {s: row["lab-01"]["labs"][0]["points"]["earned"] for s, row in records.items()}
    assert points == {"solved": 100, "untouched": 0, "averaged": 84, "syntax": 0, "BOM": 100}
    assert records["syntax"]["lab-01"]["labs"][0]["broken"].startswith("starter.py line")


def autograde(root, *members):
    """Run the autograder as Gradescope would; (exit status, results.json or None)."""
    for folder in ("source", "submission", "results"):
        (root / folder).mkdir()
    (root / "source/course").symlink_to(ROOT)
    (root / "source/LAB").write_text("01\n")
    for name, data in members:
        write(root / "submission", name, data=data)
    environment = {**os.environ, "AUTOGRADER": str(root), "GRADING_PYTHON": sys.executable}
    script = ROOT / "grading/gradescope/run_autograder"
    done = subprocess.run([script], env=environment, capture_output=True, text=True, timeout=120)
    results = root / "results/results.json"
    return done.returncode, json.loads(results.read_text()) if results.exists() else None


@pytest.mark.isolation
@pytest.mark.parametrize(
    ("members", "score", "words"),
    [
        (
            [("labs/lab-01-tp/starter.py", SOLUTION), ("results.json", b'{"score": 100}')],
            100,
            "left",
        ),
        ([], 0, "nothing was handed in"),
        ([("notes.txt", CODE)], 0, "no starter.py or starter-01.py; there is notes.txt"),
    ],
)
def test_gradescope_gets_a_score(tmp_path, members, score, words):
    status, results = autograde(tmp_path, *members)
    assert status == 0 and results["score"] == score and words in results["output"]
    assert sum(test["max_score"] for test in results["tests"]) == 100


@pytest.mark.isolation
@pytest.mark.slow
def test_classroom50s_autograder_writes_its_result(tmp_path):
    """As its runner starts it, but for the installation of packages; the course is a clone."""
    course, checkout = tmp_path / "course", tmp_path / "checkout"
    subprocess.run(["git", "init", "-q", course], check=True)
    for name in ("grading", "labkit", "phase-10-distributed-inference"):
        shutil.copytree(ROOT / name, course / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pytest.ini", "pyproject.toml"):
        shutil.copy(ROOT / name, course / name)
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run(["git", "add", "-A"], cwd=course, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "x"], cwd=course, check=True)
    write(checkout, "phase-10/labs/lab-01-tp-sharding-math/starter.py", data=SOLUTION)
    write(checkout, "result.json", data=b'{"score": 1000}')
    modules = ("venv", "pip", "json", "grading", "subprocess", "tempfile", "ensurepip")
    write(checkout, *(f"{name}.py" for name in modules), data=HOSTILE.encode())
    names = "CLASSROOM ASSIGNMENT SUBMISSION_TAG COMMIT_URL RELEASE_URL OWNER".split()
    said = {name: name.lower() for name in names} | {"COURSE": str(course), "REVISION": "HEAD"}
    said["GRADING_PYTHON"] = sys.executable
    done = subprocess.run(
        [sys.executable, ROOT / "grading/classroom50/autograder.py"],
        cwd=checkout,
        env=os.environ | said,
        timeout=120,
    )
    result = json.loads((checkout / "result.json").read_text())
    assert done.returncode == 0 and result["score"] == result["max-score"] == 100
    assert result["classroom"] == "classroom" and result["review"] == "commit_url"
    assert not list(tmp_path.rglob("*.ran"))


def test_scripts_are_valid_shell():
    for name in ("run_autograder", "setup.sh"):
        path = Path(ROOT, "grading/gradescope", name)
        assert os.access(path, os.X_OK)
        subprocess.run(shlex.split(f"bash -n {path}"), check=True)


def test_a_check_has_the_same_limits_at_home_and_here_as_the_readme_says():
    readme = (labs()["lab-01"].path.parent / "README.md").read_text(encoding="utf-8")
    usual, said = Limits(), " ".join(readme.split())
    assert CHECK_S == usual.check_s and f"may take {CHECK_S:g} seconds" in said
    assert usual.memory_bytes == 1 << 30 and "one GiB of memory" in said
    assert f"{usual.processes} processes with {usual.threads} threads" in said
