"""Submissions are found in every export's shape; what is no submission is named, never opened."""

import os
import shutil
import socket
import stat
import tracemalloc
import unicodedata
import zipfile
from datetime import UTC, datetime

import pytest

from grading import submissions
from grading.problem import Problem
from grading.submissions import read_one, read_submissions

LABS = {"lab-01", "lab-02", "lab-03", "lab-04"}
CODE = b"x = 1\n"


def write(root, *paths, data=CODE):
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def found_in(place, **options):
    found = read_submissions(place, LABS, **options)
    return found, {(s.student, s.lab): s for s in found.submissions}


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_plain_folders_and_files(tmp_path):
    write(
        tmp_path, "ada/lab-01-tp-sharding-math/starter.py", "ada/starter-03.py", "bo-starter-04.py"
    )
    write(tmp_path, "cy/lab_2/STARTER.PY", "cy/notes.txt", "dan/readme.md")
    (tmp_path / "eve/lab-01").mkdir(parents=True)
    found, by = found_in(tmp_path)
    assert set(by) == {("ada", "lab-01"), ("ada", "lab-03"), ("bo", "lab-04"), ("cy", "lab-02")}
    assert found.shapes == {"plain": 4}
    assert found.ignored == [
        ("dan", "no starter.py or starter-NN.py; there is readme.md"),
        ("eve", "no starter.py or starter-NN.py in it"),
    ]


def test_the_only_one_with_a_file_is_not_taken_for_the_folder_around_the_others(tmp_path):
    write(tmp_path, "ada/lab-01/starter.py")
    (tmp_path / "bo").mkdir()
    found, by = found_in(tmp_path)
    assert set(by) == {("ada", "lab-01")} and [s.student for s in found.unrecognised] == ["bo"]


def test_who_has_nothing_for_the_only_lab_is_named(tmp_path):
    write(tmp_path, "ada/lab-01/starter.py", "ada/lab-03/starter.py", "bo/lab-03/starter.py")
    found, by = found_in(tmp_path, only="lab-01")
    assert set(by) == {("ada", "lab-01")}
    assert found.ignored == [("bo", "no starter.py or starter-01.py for lab-01 in it")]


def test_canvas_takes_the_latest_hand_in(tmp_path):
    write(tmp_path, "doejane_LATE_12_345_starter-01.py")
    write(tmp_path, "doejane_LATE_12_399_starter-01-2.py", data=b"x = 2\n")
    write(tmp_path, "poebo_13_346_lab-03_starter.py")
    found, by = found_in(tmp_path)
    assert set(by) == {("doejane (12)", "lab-01"), ("poebo (13)", "lab-03")}
    assert by["doejane (12)", "lab-01"].source == b"x = 2\n"
    assert found.shapes == {"Canvas": 2}
    assert any("399_starter-01-2.py is graded instead" in why for _, why in found.older)
    assert by["doejane (12)", "lab-01"].late == "late (Canvas)"
    assert by["poebo (13)", "lab-03"].late == "" and not found.ignored


def test_canvas_counts_attempts_past_nine(tmp_path):
    attempts = {n: f"doejane_12_{300 + n}_starter-01-{n}.py" for n in (9, 10, 112)}
    for n, name in attempts.items():
        write(tmp_path, name, data=f"x = {n}\n".encode())
        _, by = found_in(tmp_path)
        assert by["doejane (12)", "lab-01"].source == f"x = {n}\n".encode()


def test_moodle_folders_and_an_inner_zip(tmp_path):
    write(tmp_path, "Jane Doe_77_assignsubmission_file_/starter-01.py")
    (tmp_path / "Bo Poe_78_assignsubmission_file_").mkdir()
    zipped(
        tmp_path / "Bo Poe_78_assignsubmission_file_" / "work.zip",
        {"phase-10/labs/lab-01-tp-sharding-math/starter.py": CODE, "__MACOSX/._starter.py": b"\0"},
    )
    found, by = found_in(tmp_path)
    assert set(by) == {("Jane Doe (77)", "lab-01"), ("Bo Poe (78)", "lab-01")}
    assert found.shapes == {"Moodle": 2}


def test_a_zip_file_beside_the_others_hand_ins_is_no_folder_around_them(tmp_path):
    write(tmp_path, "doejane_12_345_answer.ipynb")
    zipped(tmp_path / "poebo_13_346_work.zip", {"lab-01/starter.py": CODE})
    found, by = found_in(tmp_path)
    assert set(by) == {("poebo (13)", "lab-01")}
    assert [one.student for one in found.unrecognised] == ["doejane (12)"]
    zipped(tmp_path / "roeal_14_347_work.zip", {})
    found, _ = found_in(tmp_path)
    assert [one.student for one in found.unrecognised] == ["doejane (12)", "roeal (14)"]


def test_gradescope_names_come_from_the_metadata(tmp_path):
    root = tmp_path / "assignment_9_export"
    write(root, "submission_11/lab-01/starter.py", "submission_12/starter-01.py")
    text = "submission_11:\n  :submitters:\n  - :name: Jane Doe\n    :sid: 5\n"
    write(root, "submission_metadata.yml", data=text.encode())
    found, by = found_in(tmp_path)
    assert set(by) == {("Jane Doe (11)", "lab-01"), ("submission_12", "lab-01")}
    assert found.shapes == {"Gradescope": 2} and not found.ignored


def test_who_hands_in_is_what_the_platform_says_not_the_name_of_a_file(tmp_path):
    """What a student writes comes after the platform's own words, and says nobody's name."""
    other = "_attempt_2099-01-01-00-00-00_starter.py"
    for name in ("jdoe_attempt_2026-11-01-10-00-00_x_vic" + other, "vic" + other, "j_doe" + other):
        write(tmp_path, f"b/Lab 01_{name}")
    write(
        tmp_path,
        "m/Jane Doe_12_assignsubmission_file_Vic Poe_99_assignsubmission_file_starter-01.py",
    )
    write(tmp_path, "b/Lab 01_old_attempt_0001-01-01-00-00-00_starter.py")  # before all clocks
    for shape, students in (("b", {"jdoe", "vic", "j_doe", "old"}), ("m", {"Jane Doe (12)"})):
        found, by = found_in(tmp_path / shape)
        assert {student for student, _ in by} == students and not found.older


def test_what_a_graded_program_said_adds_nobody_to_a_group(tmp_path):
    root = tmp_path / "assignment_9_export"
    write(root, "submission_11/starter-01.py")
    said = (
        "  :results:\n    :output: |-\n      bad\n  - :name: Vic\n    :sid: 9\n    :submitters:\n"
    )
    text = f"submission_11:\n  :submitters:\n  - :name: Jane\n    :sid: 5\n{said}  - :name: Eve\n"
    write(root, "submission_metadata.yml", data=text.encode())
    (only,) = found_in(root)[0].submissions
    assert (only.student, only.clues) == ("Jane (11)", ("Jane", "5"))


@pytest.mark.timeout(20)
def test_a_students_own_metadata_names_nobody(tmp_path):
    root = tmp_path / "assignment_9_export"
    write(root, "submission_11/starter-01.py", "submission_12/starter-01.py")
    forged = b"submission_11:\n  :name: Eve\n"
    write(root, "submission_12/submission_metadata.yml", data=forged)
    long = b"submission_12:\n" + b" " * 400_000 + b":name\n  :submitters:\n  - :name: Jane\n"
    write(root, "submission_metadata.yml", data=long)
    assert set(found_in(root)[1]) == {("submission_11", "lab-01"), ("Jane (12)", "lab-01")}
    (root / "submission_metadata.yml").unlink()
    shutil.rmtree(root / "submission_11")
    write(root, "submission_12/submission_11/starter-01.py")
    for place in (root, tmp_path):
        assert {student for student, _ in found_in(place)[1]} == {"submission_12"}


def test_a_time_before_all_clocks_is_no_time(tmp_path):
    """As Blackboard's above; its file's own time counts, as where the export tells none."""
    write(tmp_path, "submission_11/starter-01.py")
    os.utime(tmp_path / "submission_11/starter-01.py", (0, 3600))
    text = "submission_11:\n  :submitters:\n  - :name: Jane\n  :created_at: 0001-01-01 00:00:00\n"
    write(tmp_path, "submission_metadata.yml", data=text.encode())
    (only,) = found_in(tmp_path, deadline=datetime.fromtimestamp(0, UTC))[0].submissions
    assert (only.student, only.late) == ("Jane (11)", "60 min after the deadline (its file's time)")


def test_github_classroom_repositories(tmp_path):
    root = tmp_path / "labs-submissions"
    for name in ("ada", "bo"):
        write(root, f"labs-{name}/phase-10-distributed-inference/labs/lab-01-tp/starter.py")
        write(root, f"labs-{name}/phase-10-distributed-inference/labs/lab-04-pp/starter.py")
        write(root, f"labs-{name}/.git/lab-01/starter.py")
    for place in (root, tmp_path):
        found, by = found_in(place)
        assert {student for student, _ in by} == {"ada", "bo"}
        assert found.shapes == {"GitHub Classroom": 4}


BLACKBOARD = "Lab 01_{}_attempt_2026-11-01-23-59-00_"


@pytest.mark.parametrize(
    ("paths", "students"),
    [
        (["export/Jane/starter-01.py", "export/Bob/starter-01.py", "2026_11_22_roster.csv"], 2),
        (["lab-01-submissions/doejane_1_5_starter-01.py"] * 2, 2),
        (["week3-submissions/" + BLACKBOARD.format(who) + "work.zip" for who in ("jo", "bo")], 2),
        (["week3-submissions/" + BLACKBOARD.format(who) + "starter.py" for who in ("jo", "bo")], 2),
        ([f"lab-01-submissions/{who}_1_assignsubmission_file_/starter-01.py" for who in "ab"], 2),
        (["jane-submissions/starter-01.py", "jane-submissions/jane-report.pdf"], 1),
        (["jane-submissions/lab-01/starter.py", "jane-submissions/jane-notes.txt"], 1),
        (["export/jphasen/starter-01.py", "export/maria/starter-01.py"], 2),
        (["Jane/starter-01.py", "Jane/._starter-01.py", "Bo/starter-01.py"], 2),
        ([f"export/Lab 1 Group {letter}/starter-01.py" for letter in "AB"], 2),
        ([f"export/Lab 1 Group {letter}/starter.py" for letter in "AB"], 2),
        ([f"Lab 1 Group {letter}/starter.py" for letter in "AB"], 2),
        (["ada/lab-01/starter.py", "ada/lab-01-old/notes.txt"], 1),
        ([f"lab-01-submissions/{who}/starter.py" for who in ("jane", "bo")], 2),
        (["Lab 1 export/jane_1_assignsubmission_file_/starter.py"], 1),
    ],
)
@pytest.mark.parametrize("shape", ["folder", "zip"])
def test_everybody_in_an_export_has_their_own(tmp_path, paths, students, shape):
    """Each starter holds its path; a second one of the same path is another student's."""
    paths = [path.replace("doejane_1", f"doejane{n}_{n}") for n, path in enumerate(paths)]
    members = {}
    for path in paths:
        inner = zipped(tmp_path / "inner.zip", {"starter-01.py": f"# {path}"}).read_bytes()
        members[path] = inner if path.endswith(".zip") else f"# {path}".encode()
    if shape == "zip":
        place = zipped(tmp_path / "all.zip", members)
    else:
        place = tmp_path / "class"
        for path, data in members.items():
            write(place, path, data=data)
    found, by = found_in(place)
    assert len(by) == students and not found.older
    assert {s.lab for s in found.submissions} == {"lab-01"}
    assert all(b"/._" not in s.source and s.problem == "" for s in found.submissions)


def test_an_assignment_around_an_export_names_its_repositories(tmp_path):
    for name in ("jane", "bo"):
        write(tmp_path, f"hw1-submissions/export/hw1-{name}/lab-01/starter.py")
    found, by = found_in(tmp_path / "hw1-submissions")
    assert found.shapes == {"GitHub Classroom": 2}
    assert {student for student, _ in by} == {"jane", "bo"}


def test_one_persons_labs_and_their_copies_are_no_class(tmp_path):
    for copy in ("lab-03-tp-comm-cost", "lab-01-tp-sharding-math-old", "lab-01-tp-sharding-math"):
        write(tmp_path, f"ada/{copy}/starter.py")
        _, by = found_in(tmp_path)
        assert {student for student, _ in by} == {"ada"}
    (tmp_path / "ada/lab-03-tp-comm-cost/starter.py").unlink()
    assert set(found_in(tmp_path)[1]) == {("ada", "lab-01")}


def test_the_lab_that_is_typed_comes_before_the_folder_around(tmp_path):
    write(tmp_path, "lab-01-submissions/ada/starter.py", "lab-01-submissions/bo/starter.py")
    for only, lab in ((None, "lab-01"), ("lab-03", "lab-03")):
        _, by = found_in(tmp_path, only=only)
        assert set(by) == {("ada", lab), ("bo", lab)}


def test_a_student_whose_folder_is_called_submissions(tmp_path):
    write(tmp_path, "jane-submissions/lab-01/starter.py")
    assert set(found_in(tmp_path)[1]) == {("jane-submissions", "lab-01")}
    write(tmp_path, "bo/lab-01/starter.py", "jane-bo/lab-01/starter.py")
    write(tmp_path, "bo-submissions/lab-01/starter.py")
    students = {student for student, _ in found_in(tmp_path)[1]}
    assert students == {"jane-submissions", "bo", "jane-bo", "bo-submissions"}


def test_one_folder_around_everything_is_no_student(tmp_path):
    write(tmp_path, "homework/ada/lab-01/starter.py", "homework/bo/lab-01/starter.py")
    _, by = found_in(tmp_path)
    assert set(by) == {("ada", "lab-01"), ("bo", "lab-01")}


@pytest.mark.parametrize("wrapper", ["homework", "submissions", "labs-submissions/labs-"])
@pytest.mark.parametrize("shape", ["folder", "zip"])
def test_what_lies_beside_the_folder_around_everything_is_nobodys(tmp_path, wrapper, shape):
    root = tmp_path / "in"
    around = wrapper if wrapper.endswith("-") else f"{wrapper}/"
    write(root, f"{around}ada/lab-01/starter.py", f"{around}bo/lab-01/starter.py")
    write(root, ".DS_Store", "roster.csv", ".vscode/folder/settings.json", "__MACOSX/._in")
    write(root, f"{around}cy/notes.txt", ".old/dan/lab-01/starter.py")
    if shape == "zip":
        files = [path for path in root.rglob("*") if path.is_file()]
        members = {str(path.relative_to(root)): path.read_bytes() for path in files}
        root = zipped(tmp_path / "all.zip", members)
    found, by = found_in(root)
    assert set(by) == {("ada", "lab-01"), ("bo", "lab-01")}
    why = "neither a student's folder nor a starter.py"
    assert found.ignored == [
        ("cy", "no starter.py or starter-NN.py; there is notes.txt"),
        (".old", why),
        ("roster.csv", why),
    ]


def test_the_budget_is_each_students_also_beside_a_stray_file(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_STUDENT_FILES", 50)
    for name in ("ada", "bo", "cy"):
        write(tmp_path, *(f"homework/{name}/{n}.txt" for n in range(30)), ".DS_Store")
        write(tmp_path, f"homework/{name}/lab-01/starter.py")
    (tmp_path / "homework/dan").mkdir()
    found, by = found_in(tmp_path)
    assert {student for student, _ in by} == {"ada", "bo", "cy"}
    assert found.ignored == [("dan", "no starter.py or starter-NN.py in it")]


def test_a_zip_of_everything_is_read_in_place(tmp_path):
    members = {
        "ada/lab-01/starter.py": CODE,
        "bo/starter-01.py": CODE,
        "bo/big.bin": bytes(1 << 20),
    }
    _, by = found_in(zipped(tmp_path / "all.zip", members))
    assert set(by) == {("ada", "lab-01"), ("bo", "lab-01")}
    assert sorted(os.listdir(tmp_path)) == ["all.zip"]


def test_which_lab_is_asked_for_when_nothing_says(tmp_path):
    write(tmp_path, "ada/starter.py")
    found, by = found_in(tmp_path)
    assert not by and "which lab?" in found.ignored[0][1]
    _, by = found_in(tmp_path, only="lab-03")
    assert set(by) == {("ada", "lab-03")}


OTHERS = "backup/starter.py", "starter.py", "my starter2.py", ".github/starter.py", "x/starter-2.py"


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("shape", ["folder of theirs", "everybody's", "zip", "inner zip"])
def test_a_file_that_names_the_lab_comes_before_one_that_does_not(tmp_path, other, shape):
    named, member = b"x = 'named'\n", "lab-02-two-way-tp/starter.py"
    write(tmp_path / "ada", member, data=named)
    write(tmp_path / "ada", other, "lab-01-tp-sharding-math/starter.py")
    student, place = None, tmp_path
    if shape == "folder of theirs":
        student, place = "ada", tmp_path / "ada"
    elif shape == "zip":
        place = zipped(tmp_path / "all.zip", {f"ada/{other}": CODE, f"ada/{member}": named})
    elif shape == "inner zip":
        place = tmp_path / "in"
        (place / "ada").mkdir(parents=True)
        zipped(place / "ada/work.zip", {f"./{other}": CODE, f"./{member}": named})
    _, by = found_in(place, only="lab-02", student=student)
    assert {key: s.source for key, s in by.items()} == {("ada", "lab-02"): named}


def test_a_folder_that_names_the_lab_for_everybody_names_no_file_of_theirs(tmp_path):
    write(tmp_path, "lab-02/ada/lab-02/starter.py", data=b"x = 'named'\n")
    write(tmp_path, "lab-02/ada/my starter2.py", "lab-02/bo/starter.py")
    _, by = found_in(tmp_path / "lab-02", only="lab-02")
    assert by["ada", "lab-02"].source == b"x = 'named'\n" and ("bo", "lab-02") in by


def test_the_folder_given_may_name_the_lab_of_what_lies_in_it(tmp_path, monkeypatch):
    write(tmp_path, "lab-01-tp/old/lab-01/starter.py", "lab-01-tp/old/starter-01.py")
    write(tmp_path, "lab-01-tp/starter.py", data=b"x = 'hers'\n")
    monkeypatch.chdir(tmp_path / "lab-01-tp")
    for place in (".", tmp_path / "lab-01-tp"):
        _, by = found_in(place, only="lab-01", student="ada")
        assert by["ada", "lab-01"].source == b"x = 'hers'\n"


def test_what_lies_in_a_hidden_folder_is_not_graded_and_is_named(tmp_path):
    write(tmp_path, ".github/lab-01/starter.py")
    found, by = found_in(tmp_path, only="lab-01", student="ada")
    why = "in a hidden folder; move it out of there"
    assert not by and ("ada/.github/lab-01/starter.py", why) in found.ignored


def test_a_folder_of_one_student_is_told_from_everybodys(tmp_path):
    write(tmp_path, "submissions/ada/lab-01-x/starter.py")
    found, by = found_in(tmp_path / "submissions" / "ada")
    why = "lab-01-x was taken for the student's name: give the folder above"
    assert not by and found.ignored == [("lab-01-x/starter.py", why)]
    _, by = found_in(tmp_path / "submissions")
    assert set(by) == {("ada", "lab-01")}
    write(tmp_path, "her lab-02/lab-01-x/starter.py", "her lab-02/lab-03-y/starter.py")
    found, by = found_in(tmp_path / "her lab-02")
    assert not by and {why.split()[0] for _, why in found.ignored} == {"lab-01-x", "lab-03-y"}


def test_two_spellings_of_one_name_are_a_question(tmp_path):
    for n, form in enumerate(("NFC", "NFD")):
        name = unicodedata.normalize(form, "José")
        write(tmp_path, f"{name}/starter-01.py", data=f"x = {n}\n".encode())
    found, by = found_in(tmp_path)
    assert set(by) == {("José", "lab-01")}
    assert [student for student, _ in found.twins] == ["José"] and not found.ignored
    assert "two people's?" in found.twins[0][1]


@pytest.mark.parametrize(
    "place", ["capstone/starter.py", "labs/Capstone/starter.py", "starter-capstone.py"]
)
def test_the_capstone_is_a_lab_as_the_others(tmp_path, place):
    write(tmp_path, f"ada/{place}", "bo/notes.txt")
    for only in (None, "capstone"):
        found = read_submissions(tmp_path, LABS | {"capstone"}, only)
        assert [(one.student, one.lab) for one in found.submissions] == [("ada", "capstone")]
    why = "no starter.py or starter-capstone.py for capstone; there is notes.txt"
    assert found.ignored == [("bo", why)]


def test_a_lab_that_does_not_exist_is_said(tmp_path):
    write(tmp_path, "ada/lab-09/starter.py")
    found, by = found_in(tmp_path)
    assert not by and "lab-09 is not one of" in found.ignored[0][1]


def test_names_that_differ_only_invisibly_stay_apart(tmp_path):
    write(tmp_path, "ada/starter-01.py", "ada\u200b/starter-01.py", "\x1b[31mada/starter-01.py")
    _, by = found_in(tmp_path)
    assert len(by) == 3
    assert all(student.isprintable() for student, _ in by)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        ("x = 1\n".encode("utf-16"), "UTF-16"),
        (b"x = 1\n\0", "NUL"),
        (b"x = '\xe9'\n", "UTF-8"),
        (b"x" * ((4 << 20) + 1), "limit"),
    ],
)
def test_bytes_that_are_no_program_are_a_problem_with_a_reason(tmp_path, data, word):
    write(tmp_path, "ada/starter-01.py", data=data)
    _, by = found_in(tmp_path)
    submission = by["ada", "lab-01"]
    assert submission.source is None and word in submission.problem


@pytest.mark.parametrize(
    "data",
    [b"\xef\xbb\xbfx = 1\n", b"x = 1\r\ny = 2\r\n", b"# coding: latin-1\nx = '\xe9'\n"],
)
def test_unusual_but_python(tmp_path, data):
    write(tmp_path, "ada/starter-01.py", data=data)
    _, by = found_in(tmp_path)
    assert by["ada", "lab-01"].source == data


def test_links_pipes_sockets_folders_and_sparse_files(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the instructor's")
    root = tmp_path / "in"
    for name in ("link", "loop", "pipe", "folder", "sparse", "socket", "dangling"):
        (root / name).mkdir(parents=True)
    (root / "link/starter-01.py").symlink_to(secret)
    (root / "dangling/starter-01.py").symlink_to("/nowhere")
    (root / "loop/lab-01").symlink_to(root, target_is_directory=True)
    os.mkfifo(root / "pipe/starter-01.py")
    (root / "folder/starter-01.py").mkdir()
    with open(root / "sparse/starter-01.py", "wb") as file:
        file.truncate(2 << 30)
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        try:
            os.chdir(root / "socket")  # a socket's path may not be long
            listener.bind("starter-01.py")
        finally:
            os.chdir(here)
        found, by = found_in(root)
    problems = {student: submission.problem for (student, _), submission in by.items()}
    assert set(problems) == {"link", "dangling", "pipe", "folder", "sparse", "socket"}
    assert all(submission.source is None for submission in by.values())
    assert "symbolic link" in problems["link"] and "symbolic link" in problems["dangling"]
    assert "folder" in problems["folder"] and str(2 << 30) in problems["sparse"]
    link = ", a link, which is not followed: hand in the files themselves"
    assert found.ignored == [("loop", "no starter.py or starter-NN.py; there is lab-01" + link)]
    assert [(one.student, one.lab) for one in found.unrecognised] == [("loop", "lab-01")]


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes devices")
def test_devices_are_not_opened(tmp_path):
    (tmp_path / "ada").mkdir()
    os.mknod(tmp_path / "ada/starter-01.py", 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    _, by = found_in(tmp_path)
    assert "device" in by["ada", "lab-01"].problem


def test_hostile_zip_members(tmp_path):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ada/lab-01/starter.py", CODE)
        archive.writestr("bo/../ada/lab-01/starter.py", b"x = 'not hers'\n")
        archive.writestr("/etc/lab-01/starter.py", CODE)
        archive.writestr("eve/..\\..\\lab-01\\starter.py", CODE)
        archive.writestr("cy/lab-01/starter.py", bytes(200 << 20))  # 200 MB of zeros in 200 kB
        link = zipfile.ZipInfo("dan/lab-01/starter.py")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    found, by = found_in(path)
    assert by["ada", "lab-01"].source == CODE
    assert "limit" in by["cy", "lab-01"].problem
    assert "symbolic link" in by["dan", "lab-01"].problem
    assert set(by) == {("ada", "lab-01"), ("cy", "lab-01"), ("dan", "lab-01")}
    assert sum(why == "a path out of the zip file" for _, why in found.ignored) == 3


def test_a_zip_that_lies_about_its_size(tmp_path):
    path = zipped(tmp_path / "all.zip", {"ada/starter-01.py": bytes(50 << 20)})
    data = bytearray(path.read_bytes())
    true_size = (50 << 20).to_bytes(4, "little")
    assert data.count(true_size) == 2
    path.write_bytes(data.replace(true_size, (10).to_bytes(4, "little")))
    _, by = found_in(path)
    assert by["ada", "lab-01"].source is None or len(by["ada", "lab-01"].source) <= 10


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_is_unpacked_only_in_ways_that_can_be_bounded(tmp_path, how):
    """Of these Python unpacks as much as there is, whatever the size it is asked for."""
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr("ada/starter-01.py", bytes(50 << 20))
    data, size = path.read_bytes(), (50 << 20).to_bytes(4, "little")
    path.write_bytes(data.replace(size, (10).to_bytes(4, "little")))
    tracemalloc.start()
    _, by = found_in(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "ordinary zip file" in by["ada", "lab-01"].problem and peak < 10 << 20


def test_of_two_files_of_one_name_the_later_counts(tmp_path):
    """As it does for whoever unpacks the zip file."""
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("ada/starter-01.py", b"old = 1\n")
        archive.writestr("ada/starter-01.py", CODE)
    assert found_in(path)[1]["ada", "lab-01"].source == CODE


def test_names_of_other_systems_are_read(tmp_path):
    """A copy's name by Windows and by macOS, the second copies, and a colon in a folder's name."""
    names = ["starter-01 - Copy.py", "starter-01 copy.py"]
    names += ["starter-01 - Copy (2).py", "starter-01 copy 2.py", "Lab 1: sharding/starter.py"]
    members = {f"s{n}/{name}": CODE for n, name in enumerate(names)}
    found, by = found_in(zipped(tmp_path / "all.zip", members))
    assert set(by) == {(f"s{n}", "lab-01") for n in range(5)} and not found.ignored
    (tmp_path / "ada").mkdir()
    zipped(tmp_path / "ada/work.zip", {"Lab 1: sharding/starter.py": CODE, "C:/x/starter.py": CODE})
    found, by = found_in(tmp_path / "ada", student="ada")
    assert by["ada", "lab-01"].source == CODE
    assert [why for _, why in found.ignored] == ["a path out of the zip file"]


def test_broken_zips_are_named(tmp_path):
    write(tmp_path, "ada/work.zip", data=b"PK\3\4 this is no zip file")
    write(tmp_path, "bo/starter-01.py")
    found, by = found_in(tmp_path)
    assert set(by) == {("bo", "lab-01")}
    assert any("not a zip file" in why for _, why in found.ignored)
    with pytest.raises(Problem, match="neither a folder nor a zip"):
        read_submissions(tmp_path / "bo/starter-01.py", LABS)
    with pytest.raises(Problem, match="does not exist"):
        read_submissions(tmp_path / "nowhere", LABS)


def test_a_zip_in_a_zip_in_a_zip_is_not_opened(tmp_path):
    inner = zipped(tmp_path / "inner.zip", {"lab-01/starter.py": CODE}).read_bytes()
    middle = zipped(tmp_path / "middle.zip", {"inner.zip": inner}).read_bytes()
    outer = zipped(tmp_path / "outer.zip", {"ada/middle.zip": middle})
    _, by = found_in(outer)
    assert not by


def test_inner_zips_are_not_held_in_memory(tmp_path):
    for n in range(6):
        (tmp_path / f"s{n}").mkdir()
        with zipfile.ZipFile(tmp_path / f"s{n}/work.zip", "w") as archive:
            archive.writestr("data.bin", bytes(4 << 20))
            archive.writestr("lab-01/starter.py", CODE)
    tracemalloc.start()
    _, by = found_in(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(by) == 6 and all(submission.source == CODE for submission in by.values())
    assert peak < 16 << 20


@pytest.mark.parametrize("name", ["class", "class.zip", "class/within"])
def test_what_may_not_be_read_is_one_sentence(name, open_folder, nobody):
    write(open_folder, "class/within/ada/starter-01.py")
    zipped(open_folder / "class.zip", {"ada/starter-01.py": CODE})
    os.chmod(open_folder / "class.zip", 0)
    os.chmod(open_folder / "class", 0)
    try:
        with nobody(), pytest.raises(Problem) as raised:
            read_submissions(open_folder / name, LABS)
    finally:
        os.chmod(open_folder / "class", 0o755)
    assert str(raised.value) == f"{open_folder / name} cannot be read: Permission denied"


def test_one_file(tmp_path):
    write(tmp_path, "starter.py")
    assert read_one(tmp_path / "starter.py") == (CODE, "")
    os.mkfifo(tmp_path / "pipe")
    assert read_one(tmp_path / "pipe")[0] is None


# --- budgets ----------------------------------------------------------------------------------


def test_a_large_but_honest_folder_is_graded(tmp_path):
    """Data, a repository's insides and a virtual environment stand beside a small starter."""
    write(tmp_path, "bo/starter-01.py")
    for folder in (".git/objects", "env/lib/python3.12/site-packages/numpy", "venv/lib", "data"):
        write(tmp_path, *(f"ada/{folder}/{n}" for n in range(1500)), data=b"")
    write(tmp_path, "ada/data.bin", data=bytes(8 << 20))
    write(tmp_path, "ada/phase-10-distributed-inference/labs/lab-01-tp/starter.py")
    found, by = found_in(tmp_path)
    assert {key: s.source for key, s in by.items()} == {
        ("ada", "lab-01"): CODE,
        ("bo", "lab-01"): CODE,
    }
    assert found.ignored == []


def test_a_folder_without_end_costs_its_student_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_STUDENT_FILES", 50)
    for n in range(80):
        write(tmp_path, f"eve/deep/{n}/x", f"ada/deep/{n}/x", f"bo/lab-03/{n}.txt")
    write(
        tmp_path, "eve/deep/79/lab-01/starter.py", "ada/lab-01/starter.py", "cy/lab-01/starter.py"
    )
    found, by = found_in(tmp_path)
    assert set(by) == {("ada", "lab-01"), ("cy", "lab-01")}
    assert by["ada", "lab-01"].source == CODE
    sentence = "more than 50 files; hand in the starter alone"
    rest = "more than 50 files; the rest was not looked at"
    assert sorted(found.ignored) == [("ada", rest), ("bo", sentence), ("eve", sentence)]
    _, by = found_in(tmp_path, only="lab-01")
    assert by["eve", "lab-01"].source is None and by["eve", "lab-01"].problem == sentence
    assert by["ada", "lab-01"].source == by["cy", "lab-01"].source == CODE


def test_the_budget_is_each_students_also_in_a_folder_around_them(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_STUDENT_FILES", 50)
    for name in ("ada", "bo", "cy"):
        write(tmp_path, *(f"labs-submissions/labs-{name}/{n}.txt" for n in range(30)))
        write(tmp_path, f"labs-submissions/labs-{name}/lab-01/starter.py")
    write(tmp_path, *(f"labs-submissions/labs-eve/{n}/x" for n in range(60)))
    _, by = found_in(tmp_path, only="lab-01")
    problems = {student: submission.problem for (student, _), submission in by.items()}
    assert {"ada": "", "bo": "", "cy": ""}.items() < problems.items()
    assert "more than 50 files" in problems["eve"]


def test_zip_files_may_unpack_to_so_much_for_one_student(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "MAX_STUDENT_BYTES", 1 << 20)
    members = {"data.bin": os.urandom(400_000), "lab-01/starter.py": CODE}
    for name in ("ada", "eve"):
        (tmp_path / name).mkdir()
    zipped(tmp_path / "ada/lab-01.zip", members)
    for n in range(4):
        zipped(tmp_path / f"eve/lab-03-{n}.zip", {"data.bin": os.urandom(400_000)})
    found, by = found_in(tmp_path)
    assert found.shapes.total() == len(found.submissions) == 2
    assert by["ada", "lab-01"].source == CODE
    assert by["eve", "lab-03"].source is None
    assert by["eve", "lab-03"].problem == (
        "zip files of more than 1 MiB together; hand in the starter alone"
    )
    write(tmp_path, "eve/lab-03/starter.py")  # beside them, it is graded
    assert found_in(tmp_path)[1]["eve", "lab-03"].source == CODE


@pytest.mark.parametrize("count", [30, 5000])
def test_a_zip_file_of_too_many_files_is_not_listed(tmp_path, monkeypatch, count):
    monkeypatch.setattr(submissions, "MAX_STUDENT_FILES", 20)
    (tmp_path / "eve").mkdir()
    write(tmp_path, "bo/starter-01.py")
    path = zipped(tmp_path / "eve/lab-01.zip", {f"{n}": b"" for n in range(count)})
    if count > 30:
        with zipfile.ZipFile(path, "a") as archive:  # and the last name says that it is short
            archive.writestr("PK\6\6" + "\0" * 60, b"")
        monkeypatch.setattr(submissions.zipfile, "ZipFile", None)  # its list is too long
    _, by = found_in(tmp_path)
    assert by["bo", "lab-01"].source == CODE
    assert "more than 20 files in a zip file" in by["eve", "lab-01"].problem
    with pytest.raises(Problem, match="is it the right one"):
        monkeypatch.setattr(submissions, "MAX_FILES", 20)
        read_submissions(path, LABS)


def test_a_zip_of_a_large_class_is_read(tmp_path):
    members = {f"s{n % 100}/.git/{n}": b"" for n in range(21_000)}
    found, by = found_in(zipped(tmp_path / "all.zip", members | {"ada/lab-01/starter.py": CODE}))
    assert set(by) == {("ada", "lab-01")}
