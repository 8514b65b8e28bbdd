"""What an instructor types, and what comes back."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from rich.console import Console

from grading import commands, engines
from grading import run as grading_run
from grading.__main__ import main
from grading.fingerprint import labs_by_prefix
from grading.gradebook import Gradebook
from grading.grader import Grader
from grading.limits import Limits
from grading.problem import Problem
from grading.sandbox import Cell, check_private, inspect_machine
from grading.submissions import Submission
from labkit.loading import ROOT
from tests.test_grading_exports import record as graded_record

LAB = labs_by_prefix()["lab-03"]  # the quickest to start


def grading(*arguments, **environment):
    """(exit status, what it printed); one grader, for each has to start before it grades."""
    command = [sys.executable, "-m", "grading", *map(str, arguments)]
    command += ["--jobs", "1"] if arguments[0] == "run" and "--jobs" not in arguments else []
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "120", **environment},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def warm():
    """A grader that is started once, for tests of what is done with grades."""
    with Grader(Limits(), number=6) as grader:
        yield grader


@pytest.fixture
def command(warm, monkeypatch, capsys):
    """`grading`, in this process and with that grader."""

    class Warm:
        def __init__(self, limits, weak=False, secret=None, number=0):
            warm.secret = secret
            self.grade_or_refuse = warm.grade_or_refuse

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.close()

        def close(self):
            pass

    for user in (commands, grading_run):
        monkeypatch.setattr(user, "Grader", Warm)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*arguments):
        jobs = ["--jobs", "1"] if arguments[0] == "run" and "--jobs" not in arguments else []
        try:
            status = main([*map(str, arguments), *jobs])
        except SystemExit as end:  # of argparse
            status = end.code
        return status, "".join(capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    root = tmp_path_factory.mktemp("course")
    for name, which in (("ada", "solution"), ("bo", "starter")):
        place = root / "in" / name / "lab-03" / "starter.py"
        place.parent.mkdir(parents=True)
        place.write_bytes(LAB.file(which).read_bytes())
    (root / "in" / "cy").mkdir()
    (root / "secret").write_bytes(bytes(range(32)))
    status, text = grading("run", root / "in", "--out", root / "out", "--secret", root / "secret")
    assert status == 1, text  # cy's folder needs a look
    return root, text


@pytest.mark.isolation
def test_run_says_what_it_found_graded_and_wrote(graded):
    _, text = graded
    assert "2 submissions recognised (2 plain)" in text and "not graded cy: no starter" in text
    assert "3 graded in" in text and "median 0, 1 with full marks" in text
    assert "1 hand-in needs a look" in text


@pytest.mark.isolation
def test_run_again_grades_nothing(graded):
    root, _ = graded
    status, text = grading("run", root / "in", "--out", root / "out", "--secret", root / "secret")
    assert status == 1 and "0 graded in" in text and "3 were graded before" in text


@pytest.mark.isolation
def test_the_record_says_how_far_to_trust_it(graded):
    root, _ = graded
    records = json.loads((root / "out/grades.json").read_text())["records"]
    by = {record["student"]: record for record in records}
    assert by["ada"]["score"] == 100 and by["bo"]["score"] == 0
    why = "no starter.py or starter-NN.py in it"
    assert {claim["message"] for claim in by["cy"]["claims"]} == {why}
    for record in records:
        assert record["integrity"] == "isolated"
        ran = record["student"] != "cy"
        assert not ran or {"bubblewrap", "seccomp", "pid", "net"} <= set(record["layers"])
    assert by["ada"]["hidden_numbers"] is True


@pytest.mark.isolation
def test_status_export_and_whose_name_is_meant(command, graded):
    root, _ = graded
    status, text = command("forget", "nobody", "--out", root / "out")
    assert status == 2 and "no student called 'nobody'" in text
    status, text = command("forget", "", "--out", root / "out")
    assert status == 2 and "could be ada, bo, cy; give more of the name" in text
    status, text = command("status", "--out", root / "out")
    assert status == 0 and "3 graded, 0 without a score" in text
    (root / "out/grades.csv").unlink()
    status, text = command("export", "--out", root / "out", "--format", "csv")
    assert status == 0 and (root / "out/grades.csv").exists()


@pytest.mark.isolation
@pytest.mark.parametrize("points", [0, 18])
def test_points_that_could_not_be_earned_here_are_on_the_class_screen(graded, points):
    root, _ = graded
    with Gradebook(root / "out") as gradebook:
        records = gradebook.records()
    console = Console(file=io.StringIO(), width=120)
    commands._summary(console, [record | {"not_run": points} for record in records], [])
    text = console.file.getvalue()
    assert ("not run here" in text) == bool(points)
    assert not points or "1 with full marks, 18 of 100 points not run here" in text


def test_a_gradebook_in_which_all_are_held_says_why_and_a_format_that_is_none_is_refused(
    command, tmp_path
):
    with Gradebook(tmp_path, write=True) as gradebook:
        gradebook.set_hand_ins([("ada", "lab-01", "k", "ada/starter-01.py", "")])
        gradebook.hold("k", "the sandbox is gone")
    status, text = command("status", "--out", tmp_path)
    said = "0 graded, 1 without a score.\n  no score ada lab-01: the sandbox is gone\n"
    assert (status, text) == (1, said)
    status, text = command("export", "--format", "pdf", "--out", tmp_path)
    assert status == 2 and "grading: --format pdf: there are csv, canvas, " in text


def test_points_of_who_handed_nothing_in_are_on_the_class_screen():
    claim = graded_record()["claims"][0] | {"outcome": "missing", "earned": 0}
    nothing = graded_record() | {"score": 0, "claims": [claim], "lab": "lab-01"}
    points = [claim, claim | {"outcome": "adjusted", "earned": 5}]
    paper = nothing | {"score": 5, "claims": points}
    console = Console(file=io.StringIO(), width=120)
    commands._summary(console, [nothing | {"student": "ada"}, paper | {"student": "bo"}], [])
    lines = [line.split()[:2] for line in console.file.getvalue().splitlines()]
    assert ["ada", "-"] in lines and ["bo", "5"] in lines


@pytest.mark.isolation
def test_one_is_a_screen_for_the_student(command, tmp_path):
    results, classroom = tmp_path / "results.json", tmp_path / "classroom.json"
    file = LAB.file("starter")
    status, text = command(
        "one", file, "--lab", "03", "--results", results, "--classroom", classroom
    )
    assert status == 0 and "0 of 100 points" in text and "Next:" in text
    assert len(text.splitlines()) <= 30
    assert json.loads(results.read_text())["score"] == 0
    assert json.loads(classroom.read_text())["status"] == "fail"
    status, text = command("one", file, "--lab", "03", "--results", tmp_path / "no/such.json")
    assert status == 2 and "such.json: No such file" in text and "Traceback" not in text


@pytest.mark.isolation
def test_one_reads_a_students_folder_as_run_reads_everybodys(command, tmp_path):
    for name, which in (("starter-03 (1).py", "solution"), ("lab-03/starter.py", "starter")):
        place = tmp_path / "in" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(LAB.file(which).read_bytes())
    status, text = command("one", tmp_path / "in", "--lab", "03")
    assert status == 0 and "100 of 100 points" in text
    assert "not graded student/lab-03/starter.py: student/starter-03 (1).py is graded" in text
    (tmp_path / "none").mkdir()
    (tmp_path / "none/notes.txt").write_text("later")
    status, text = command("one", tmp_path / "none", "--lab", "03", "--results", tmp_path / "r")
    assert status == 0 and "0 of 100 points" in text and "there is notes.txt" in text
    results = json.loads((tmp_path / "r").read_text())
    why = "no starter.py or starter-03.py for lab-03; there is notes.txt"
    assert results["score"] == 0 and why in results["output"]


@pytest.mark.isolation
def test_a_terminal_without_unicode_gets_all_that_it_can_show(graded, tmp_path):
    root, _ = graded
    results, ascii = tmp_path / "results.json", {"PYTHONIOENCODING": "ascii"}
    status, text = grading("one", LAB.file("starter"), "--lab", "03", "--results", results, **ascii)
    assert status == 0 and "\\xb7" in text and results.exists()  # a middle dot in a claim
    status, text = grading("status", "--out", root / "out", **ascii)
    assert status == 0 and "3 graded" in text


@pytest.mark.isolation
def test_what_reads_only_the_first_lines_ends_it_without_a_traceback(graded):
    root, _ = graded
    for command in ("export", "status", "diff"):
        script = f"{sys.executable} -m grading {command} --out {root / 'out'} | true"
        done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True)
        assert done.stderr == ""


@pytest.mark.isolation
def test_rows_that_are_not_among_the_submissions_any_more_are_kept_and_named(command, tmp_path):
    def hand_in(*names):
        shutil.rmtree(tmp_path / "in", ignore_errors=True)
        for name in names:
            place = tmp_path / "in" / name
            place.parent.mkdir(parents=True)
            place.write_bytes(b"raise SystemExit")
        return command("run", tmp_path / "in", "--out", tmp_path / "out")[1]

    assert "earlier" not in hand_in("ada/starter-03.py", "bo/starter-03.py", "cy/starter-01.py")
    text = hand_in("ada/starter-03.py", "cy/starter-03.py", "dan/starter-03.py")
    kept = "row of an earlier run is kept, though not among these submissions: bo lab-03. To be"
    assert f"1 {kept}" in text and "another folder with --out" in text  # cy's lab-01 had its run
    text = hand_in("ada/starter-01.py", "cy/starter-01.py")
    assert "2 rows of earlier runs are kept" in text and ": bo lab-03, dan lab-03." in text
    assert len(rows(tmp_path / "out")) == 4


@pytest.fixture
def copy(graded, tmp_path):
    """A gradebook of ada (100), bo (0) and cy (nothing recognised), to change."""
    shutil.copytree(graded[0] / "out", tmp_path / "out")
    return tmp_path / "out"


def rows(out):
    text = (out / "grades.csv").read_text(encoding="utf-8-sig")
    return {row["student"]: row for row in csv.DictReader(io.StringIO(text))}


@pytest.mark.isolation
def test_an_adjustment_is_in_every_export_and_can_be_taken_back(command, copy):
    status, text = command("adjust", "bo", "03", "7", "--because", "oral <b>", "--out", copy)
    assert (status, text) == (0, "bo lab-03: 7 of 100 points\n")
    said = "Adjusted by +7: oral <b>"
    assert rows(copy)["bo"]["adjusted"] == f"lab-03: {said}" and rows(copy)["bo"]["total"] == "7"
    record = next(
        r for r in json.loads((copy / "grades.json").read_text())["records"] if r["student"] == "bo"
    )
    assert record["score"] == 7 == sum(claim["earned"] for claim in record["claims"])
    assert json.loads((copy / "ctrf.json").read_text())["results"]["summary"]["tests"] > 3
    assert 'name="adjustment"' in (copy / "junit.xml").read_text()
    page = next((copy / "html").glob("bo-*.html")).read_text()
    assert "Adjusted by +7: oral &lt;b&gt;" in page and "7 of 100 points" in page
    assert "+7" in (copy / "html/index.html").read_text()
    assert command("adjust", "ada", "03", "5", "--because", "x", "--out", copy)[1].count(
        "100 of 100"
    )
    assert command("adjust", "cy", "03", "-5", "--because", "x", "--out", copy)[1].count(
        " 0 of 100"
    )
    assert command("adjust", "bo", "03", "0", "--because", "x", "--out", copy)[1].count(" 0 of 100")
    assert rows(copy)["bo"]["adjusted"] == ""
    status, text = command("adjust", "bo", "01", "1", "--because", "x", "--out", copy)
    assert status == 2 and "bo has no row for lab-01" in text


@pytest.mark.isolation
def test_graded_again_and_what_changed(command, graded, copy):
    again = ("run", graded[0] / "in", "--secret", graded[0] / "secret", "--out", copy, "--again")
    place = graded[0] / "in/bo/lab-03/starter.py"
    assert "1 graded in" in command(*again, "ada")[1]
    status, text = command("diff", "--out", copy)
    assert (status, text) == (0, "0 rows changed.\n")
    before = place.read_bytes()
    try:
        place.write_bytes(LAB.file("solution").read_bytes())
        assert "1 graded in" in command(*again[:-1])[1]
    finally:
        place.write_bytes(before)
    for other in ([], [graded[0] / "out"]):
        status, text = command("diff", *other, "--out", copy)
        assert status == 1 and "bo lab-03: 0 -> 100\n" in text and "1 row changed." in text
        assert "to do -> passed" in text and "ada" not in text


@pytest.mark.isolation
def test_who_is_forgotten_is_in_no_file(command, copy):
    status, text = command("forget", "ada", "--out", copy)
    assert status == 0 and "the next run grades it again: ada/lab-03/starter.py" in text
    assert set(rows(copy)) == {"bo", "cy"}
    assert not [p for p in copy.rglob("*") if p.is_file() and b"ada/lab-03" in p.read_bytes()]
    assert not list(copy.rglob("ada-*"))


@pytest.mark.isolation
def test_merged_gradebooks_are_as_one(command, graded, tmp_path):
    parts = []
    for name in ("ada", "bo", "cy"):
        shutil.copytree(graded[0] / "in" / name, tmp_path / name / "in" / name)
        if name == "cy":
            shutil.copytree(graded[0] / "in/bo", tmp_path / "cy/in/bo")
        parts.append(tmp_path / name / "out")
        secret = ("--secret", graded[0] / "secret")
        command("run", tmp_path / name / "in", "--out", parts[-1], *secret)
    status, text = command("merge", *parts, "--out", tmp_path / "all")
    assert status == 0 and "1 row was in" in text and "3 records in" in text
    one, all_ = graded[0] / "out", tmp_path / "all"
    for path in one.rglob("*"):
        if path.is_file() and not path.name.startswith("gradebook"):
            assert path.read_bytes() == (all_ / path.relative_to(one)).read_bytes(), path
    status, text = command("merge", tmp_path / "none", "--out", tmp_path / "new")
    assert status == 2 and "no grades in" in text and not (tmp_path / "new").exists()


def test_tests_that_do_not_collect_end_the_run_once(tmp_path, monkeypatch, capsys):
    lab = replace(LAB, path=tmp_path / LAB.path.name)
    shutil.copytree(LAB.path, lab.path)
    with (lab.path / "test_lab.py").open("a") as file:
        file.write("\nimport no_such_module\n")
    (tmp_path / "in/ada").mkdir(parents=True)
    (tmp_path / "in/ada/starter-03.py").write_text("x = 1")
    monkeypatch.setattr(commands, "labs_by_prefix", lambda: {"lab-03": lab})
    run = ["run", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert main([*run, "--allow-weak-sandbox"]) == 2
    said = capsys.readouterr().err
    assert "cannot be collected, nobody was graded" in said and "no_such_module" in said
    assert said.count("\n") == 1 and not (tmp_path / "out").exists()


@pytest.mark.isolation
def test_doctor_shows_layers_and_what_a_probe_could_not_do():
    status, text = grading("doctor")
    assert status == 0 and "ALLOWED" not in text
    assert text.count("refused") >= 20 and "on seccomp" in text


@pytest.mark.isolation
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere", "--out", "OUT"], "nowhere does not exist"),
        (["run", "EMPTY", "--out", "OUT"], "no submission was recognised"),
        (["run", "EMPTY", "--out", "OUT", "--lab", "77"], "no such lab; there are"),
        (["run", "EMPTY", "--out", "OUT", "--jobs", "0"], "at least 1"),
        (["run", "EMPTY", "--out", "OUT", "--secret", "SHORT"], "at least 16"),
        (["run", "EMPTY", "--out", "OUT", "--check-s", "-1"], "a number above 0"),
        (["run", "EMPTY", "--out", "OUT", "--secret", "EMPTY"], "at least 16"),
        (["run", "EMPTY", "--out", "OUT", "--memory-mib", "1e12"], "below"),
        (["run", "CLASS", "--out", "SHORT"], "--out a folder"),
        (["run", "CLASS", "--out", "BROKEN"], "not a database"),
        (["status", "--out", "BROKEN"], "not a database"),
        (["status", "--out", "EMPTY"], "no grades in"),
        (["forget", "ada", "--out", "OUT"], "no grades in"),
        (["run", "CLASS", "--out", "OUT", "--deadline", "soon"], "such as 2026-11-30T23:59"),
        (["run", "CLASS", "--out", "OUT", "--roster", "SHORT"], "no column called name"),
        (["one", "nowhere.py", "--lab", "03"], "does not exist"),
    ],
)
def test_a_mistake_of_the_instructor_is_one_sentence(arguments, words, command, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "short").write_text("x")
    for place in ("class/ada/starter-03.py", "broken/gradebook.sqlite"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text("x = 1\n" * 2000)
    places = {"OUT": tmp_path / "out", "EMPTY": tmp_path / "empty", "SHORT": tmp_path / "short"}
    places |= {"CLASS": tmp_path / "class", "BROKEN": tmp_path / "broken"}
    status, text = command(*[places.get(argument, argument) for argument in arguments])
    lines = [line for line in text.splitlines() if line.startswith("grading: ")]
    assert status == 2 and len(lines) == 1 and words in lines[0]


def test_without_bubblewrap_it_refuses_and_says_what_to_do(tmp_path):
    file = LAB.file("starter")
    status, text = grading("one", file, "--lab", "03", PATH=str(tmp_path))
    assert status == 2
    assert "apt-get install bubblewrap" in text and "--allow-weak-sandbox" in text


def test_a_weak_sandbox_is_stamped(tmp_path):
    """It works in the machine's own /tmp, where nothing of a run's may stay for the next one."""
    lab, before = labs_by_prefix()["lab-03"], set(os.listdir("/tmp"))
    for name, which in (("ada", "solution"), ("bo", "starter")):
        place = tmp_path / "in" / name / "starter-03.py"
        place.parent.mkdir(parents=True)
        place.write_bytes(lab.file(which).read_bytes())
    command = ("run", tmp_path / "in", "--out", tmp_path / "out", "--allow-weak-sandbox")
    status, text = grading(*command, PATH=str(tmp_path))
    assert status == 0, text
    assert "2 records were made in a weak sandbox" in text
    records = json.loads((tmp_path / "out/grades.json").read_text())["records"]
    assert [record["score"] for record in records] == [100, 0]
    left = set(os.listdir("/tmp")) - before
    assert not [
        name for name in left if name.startswith("grading-worker") or (lab.path / name).exists()
    ]
    for record in records:
        assert record["integrity"] == "weak" and "bubblewrap" in record["missing"]


# --- what a submission must not read --------------------------------------------------------------


def test_a_course_that_every_submission_could_read_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "base_prefix", str(ROOT.parent))  # as `--prefix=$HOME` makes it
    file = str(LAB.file("solution"))
    one, run, weak = ["one", file, "--lab", "03"], ["run", file], "--allow-weak-sandbox"
    for command in (one, [*one, weak], run, [*run, weak], ["doctor"]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert f"grading: the course {ROOT} lies in {ROOT.parent}" in said
        assert "move it elsewhere" in said and said.count("\n") == 1
    with pytest.raises(Problem, match="the course"):  # a worker of a cluster
        Cell(Limits(), inspect_machine(), weak=True)


@pytest.mark.parametrize("option", ["--secret", "--out", "submissions", "--results", "file"])
def test_what_is_kept_from_submissions_may_not_lie_where_they_read(
    option, tmp_path, monkeypatch, capsys
):
    python, elsewhere = tmp_path / "python", tmp_path / "elsewhere"
    for folder in (python / "lib", elsewhere):
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(bytes(16))
    (tmp_path / "link").symlink_to(python)
    monkeypatch.setattr(sys, "base_prefix", str(python))
    inside, outside = str(tmp_path / "link/lib/x"), str(elsewhere / "x")
    if option in ("--results", "file"):
        places = {"file": outside, "--results": outside} | {option: inside}
        command = ["one", places.pop("file"), "--lab", "03"]
    else:
        places = {"submissions": outside, "--out": outside, "--secret": outside} | {option: inside}
        command = ["run", places.pop("submissions")]
    assert main([*command, *(word for pair in places.items() for word in pair)]) == 2
    assert f"grading: {option} {inside} lies in {python}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "place", ["/usr/src/app", "/usr/local/course", "/lib/course", "/usr/share/../src/app"]
)
def test_the_systems_folders_are_no_place_for_a_course(place):
    with pytest.raises(Problem, match="lies in /(usr|lib), which every submission may read"):
        check_private({"the course": place})


def test_usual_places_for_a_course_are_accepted(monkeypatch):
    places = ["/home/x/course", "/srv/course", "/opt/course", "/root/course", "/autograder/course"]
    places += ["/home/runner/work/course/course", "/builds/group/course", "/workspaces/course"]
    for prefix in ("/usr", "/usr/local", "/opt/hostedtoolcache/Python/3.12.4/x64", "/opt/python3"):
        monkeypatch.setattr(sys, "base_prefix", prefix)
        check_private({place: place for place in places})
    monkeypatch.setattr(sys, "base_prefix", "/home/x/course/.python/3.12")  # inside the course
    check_private({"the course": "/home/x/course", "--secret": "/home/x/course/secret"})


# --- what it costs --------------------------------------------------------------------------------


def test_a_sandbox_that_does_not_start_keeps_no_descriptor():
    machine = replace(inspect_machine(), bwrap="/nowhere/bwrap", layers=("namespaces",))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError):
        Cell(Limits(), machine, weak=True)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_stations_that_are_stuck_are_waited_for_once(monkeypatch):
    class Stuck:
        def __init__(self, *_):
            pass

        def close(self):
            pass

        def grade_or_refuse(self, submission, lab):
            if submission.student != "ada":
                never.wait(20)

    never = threading.Event()
    monkeypatch.setattr(grading_run, "Grader", Stuck)
    monkeypatch.setattr(grading_run, "STOP_S", 0.3)
    jobs = [(n, Submission(n, "lab-03", n, b"")) for n in ("bo", "cy", "dan", "eve", "ada")]
    results = grading_run.grade_locally(jobs, Limits(), None, False, 5)
    assert next(results)[0] == "ada"
    started = time.monotonic()
    results.close()  # as an interrupt does
    never.set()
    assert 0.3 <= time.monotonic() - started < 1  # four times 0.3 s would be more


def test_the_stations_are_as_many_as_the_processors_this_process_may_use(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "in/ada").mkdir(parents=True)
    (tmp_path / "in/ada/starter-03.py").write_text("x = 1")
    counts, mine = [], os.sched_getaffinity(0)
    monkeypatch.setattr(engines, "grade_locally", lambda *args: counts.append(args[-1]) or [])
    os.sched_setaffinity(0, {min(mine)})
    try:
        main(["run", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--allow-weak-sandbox"])
    finally:
        os.sched_setaffinity(0, mine)
    assert counts == [1]


# --- other systems --------------------------------------------------------------------------------


def test_another_system_is_told_that_the_grader_needs_linux(monkeypatch, capsys):
    monkeypatch.setattr(sys, "platform", "darwin")
    one = ["one", str(LAB.file("starter")), "--lab", "03", "--allow-weak-sandbox"]
    for command in (["doctor"], ["status"], one):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "this tool needs Linux" in said and "darwin" in said and said.count("\n") == 1


def test_its_tests_are_skipped_there_and_say_so():
    script = "import sys, sysconfig, pytest; sysconfig.get_config_vars(); sys.platform = 'darwin'; "
    script += "sys.exit(pytest.main(sys.argv[1:]))"
    file = ROOT / "tests/test_grading_score.py"
    command = [sys.executable, "-c", script, str(file), "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "SKIPPED [1]" in done.stdout and "the grader needs Linux" in done.stdout
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED and not done.stderr
