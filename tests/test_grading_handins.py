"""Hand-ins are found in every export's shape; what is none is named, never opened or guessed."""

import os
import random
import re
import socket
import stat
import subprocess
import unicodedata
import zipfile
from datetime import UTC, datetime

import pytest

from grading import handins
from grading.gradebook import labs
from grading.handins import PATTERNS, collect
from grading.text import Problem
from labkit import starters
from tests.class_of_20 import KINDS, SHAPES, zipped
from tests.class_of_20 import write as write_class
from tests.conftest import calls_made

CODE = b"x = 1\n"
STARTER = labs()["lab-01"].file("starter").read_bytes()


def write(root, *paths, data=CODE):
    for path in paths:
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def found_in(place, **options):
    found = collect(place, labs(), **options)
    return found, {(one.student, one.lab): one for one in found.handins}


def students_of(found):
    return {one.student for one in found.handins if one.source is not None}


# --- the platforms -----------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_of_twenty_is_read_as_each_platform_exports_it(shape, packed, tmp_path):
    found, _ = found_in(write_class(tmp_path, shape, packed))
    assert len(found.handins) == len(KINDS) - KINDS.count("absent")
    shapes = {one.shape.lower().replace("clone", "classroom50") for one in found.handins}
    assert shapes == {shape.replace("clone", "classroom50")}
    assert {one.lab for one in found.handins} == {"lab-01"} and not found.ignored
    (unread,) = [one for one in found.handins if one.source is None]
    assert unread.problem == "no starter.py or starter-NN.py; there is answer.ipynb"
    late = [one for one in found.handins if one.late]
    assert [one.late for one in late] == ["late (Canvas)"] * (shape == "canvas")
    graded = {one.student: one.source for one in found.handins}
    assert sum(source == STARTER for source in graded.values()) == 1  # not of who has both
    notes = [note for one in found.handins for note in one.notes]
    assert any("lab01_final.py" in note for note in notes)


@pytest.mark.parametrize("name", PATTERNS)
def test_the_example_beside_each_pattern_fits_it(name):
    text = open(handins.__file__, encoding="utf-8").read()
    comment = re.search(rf"((?:    # .*\n)+)    \"{re.escape(name)}\": ", text)[1]
    example = re.match(r"    # (.+?\.py)\b", comment)[1]
    assert re.fullmatch(PATTERNS[name], example)


def test_who_hands_in_is_what_the_platform_says_not_the_name_of_a_file(tmp_path):
    """What a student writes comes after the platform's own words, and says nobody's name."""
    other = "_attempt_2099-01-01-00-00-00_starter.py"
    for name in ("jdoe_attempt_2026-11-01-10-00-00_x_vic" + other, "vic" + other, "j_doe" + other):
        write(tmp_path, f"b/Lab 01_{name}")
    vic = "Vic Poe_99_assignsubmission_file_starter-01.py"
    write(tmp_path, f"m/Jane Doe_12_assignsubmission_file_{vic}")
    write(tmp_path, f"m/Bo Poe_13_assignsubmission_file_/{vic.replace('file_', 'file_/')}")
    write(tmp_path, "c/doejane_12_345_poevic_99_346_starter-01.py", "c/poevic_99_350_starter-01.py")
    write(tmp_path, "b/Lab 01_old_attempt_0001-01-01-00-00-00_starter.py")  # before all clocks
    wanted = {"b": {"jdoe", "vic", "j_doe", "old"}, "m": {"Jane Doe (12)", "Bo Poe (13)"}}
    for shape, students in (wanted | {"c": {"doejane (12)", "poevic (99)"}}).items():
        found, _ = found_in(tmp_path / shape)
        assert students_of(found) == students


def test_canvas_takes_the_newest_attempt_also_past_nine(tmp_path):
    for n in (9, 10, 112):
        write(tmp_path, f"doejane_12_{300 + n}_starter-01-{n}.py", data=f"x = {n}\n".encode())
        assert found_in(tmp_path)[1]["doejane (12)", "lab-01"].source == f"x = {n}\n".encode()
    write(tmp_path, "doejane_12_999_starter-01.py", data=STARTER.replace(b"\n", b"\r\n"))
    assert found_in(tmp_path)[1]["doejane (12)", "lab-01"].source == b"x = 112\n"


def test_canvas_names_students_and_texts(tmp_path):
    write(tmp_path, "anon_Ab_346_starter-01.py")  # graded anonymously: the file's name says it
    write(tmp_path, "poebo_13_text.html", "van_der_berg_14_347_starter-01.py")
    found, by = found_in(tmp_path)
    assert students_of(found) == {"anon_Ab_346", "van_der_berg (14)"}
    assert by["poebo (13)", "lab-01"].problem.endswith("there is poebo_13_text.html")


METADATA = """---
submission_1:
  :submitters:
  - :name: 'Cy O''Brien'
    :sid: s-5
    :email: cy@x.edu
  - :name: "Jos\\u00e9 N\\xfa\\xf1ez"
    :sid: s-1
  :created_at: 2026-11-02 00:30:00.000000000 +01:00
  :history:
  - :id: 3
    :created_at: 2026-10-01 10:00:00.000000000 Z
  :results:
    :output: |-
      bad
  - :name: Vic
    :sid: 9
    :submitters:
  - :name: Eve
"""


def test_gradescope_names_come_from_its_own_metadata_alone(tmp_path):
    root = tmp_path / "assignment_9_export"
    write(root, "submission_1/starter-01.py", "submission_2/starter-01.py")
    write(root, "submission_metadata.yml", data=METADATA.encode())
    forged = b"submission_1:\n  :submitters:\n  - :name: Eve\n"
    write(root, "submission_2/submission_metadata.yml", data=forged)
    found, by = found_in(tmp_path)
    assert students_of(found) == {"Cy O'Brien (1)", "José Núñez (1)", "submission_2"}
    one = by["José Núñez (1)", "lab-01"]
    assert one.clues == ("José Núñez", "s-1")
    assert one.when.astimezone(UTC) == datetime(2026, 11, 1, 23, 30, tzinfo=UTC)


def test_a_pattern_of_ones_own_comes_first(tmp_path):
    write(tmp_path, "team 7 - Jane Doe - lab 1.py", "sect-A/u7/lab-01.zip-not/starter.py")
    pattern = r"team (?P<number>\d+) - (?P<name>[^/]+?) - (?P<file>lab.*\.py)"
    found, by = found_in(tmp_path, pattern=pattern)
    assert by["Jane Doe (7)", "lab-01"].shape == "--pattern"
    with pytest.raises(Problem, match="needs the groups"):
        collect(tmp_path, labs(), pattern=r"(?P<name>.+)\.py")
    with pytest.raises(Problem, match="--pattern .*unterminated"):
        collect(tmp_path, labs(), pattern="(")


# --- whose folder is it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "students"),
    [
        (["export/Jane/starter-01.py", "export/Bob/starter-01.py", "2026_roster.csv"], 2),
        (["lab-01-submissions/doejane_1_5_starter-01.py", ".DS_Store"], 1),
        (["jane-submissions/starter-01.py", "jane-submissions/jane-report.pdf"], 1),
        (["jane-submissions/lab-01/starter.py", "jane-submissions/notes.txt"], 1),
        (["Jane/starter-01.py", "Jane/._starter-01.py", "Bo/starter-01.py"], 2),
        (["export/Jane/my starter-01.py", "export/Bo/starter-01.py", "export/.DS_Store"], 2),
        ([f"export/hw-submissions/hw-{who}/lab-01/starter.py" for who in ("jane", "bo")], 2),
        ([f"export/Lab 1 Group {letter}/starter.py" for letter in "AB"], 2),
        ([f"Lab 1 Group {letter}/starter.py" for letter in "AB"], 2),
        (["ada/lab-01/starter.py", "ada/lab-01-old/notes.txt"], 1),
        ([f"lab-01-submissions/{who}/starter.py" for who in ("jane", "bo")], 2),
        (["hw1-submissions/export/hw1-jane/lab-01/starter.py", "hw1-submissions/x.csv"], 1),
        (["homework/ada/lab-01/starter.py", "homework/bo/lab-01/starter.py", ".old/x"], 2),
        (["ada/lab-01/starter.py", "ada/lab-01-tp-sharding-math-old/starter.py"], 1),
    ],
)
@pytest.mark.parametrize("shape", ["folder", "zip"])
def test_everybody_in_an_export_has_their_own(tmp_path, paths, students, shape):
    place = tmp_path / "class"
    if shape == "zip":
        place = tmp_path / "all.zip"
        place.write_bytes(zipped({path: CODE for path in paths}))
    else:
        write(place, *paths)
    found, by = found_in(place)
    assert len(students_of(found)) == students
    assert {one.lab for one in found.handins} == {"lab-01"}


def test_what_names_the_lab(tmp_path):
    write(tmp_path, "ada/lab_2/STARTER.PY", "ada/starter-03.py", "bo/labs/Capstone/starter.py")
    write(tmp_path, "cy/starter-capstone.py", "jane-starter-04.py")
    _, by = found_in(tmp_path)
    assert set(by) == {("ada", "lab-02"), ("ada", "lab-03"), ("bo", "capstone")} | {
        ("cy", "capstone"),
        ("jane", "lab-04"),
    }
    _, by = found_in(tmp_path, only="lab-03")
    assert by["ada", "lab-03"].source == CODE
    assert "no starter.py or starter-03.py; there is" in by["bo", "lab-03"].problem


def test_which_lab_is_asked_for_when_nothing_says(tmp_path):
    write(tmp_path, "ada/starter.py", "bo/notes.txt")
    found, by = found_in(tmp_path)
    assert not by and "which lab?" in found.ignored[0][1]
    _, by = found_in(tmp_path, only="lab-03")
    assert by["ada", "lab-03"].source == CODE
    write(tmp_path, "cy/starter-01.py")  # the only lab of this run
    assert found_in(tmp_path)[1]["ada", "lab-01"].source == CODE
    write(tmp_path, "dee/lab-09/starter.py")
    assert "lab-09 is not one of" in found_in(tmp_path)[1]["dee", "lab-01"].problem


def test_a_lab_is_no_student(tmp_path):
    write(tmp_path, "lab-01-x/starter.py", "lab-03-y/starter.py")
    found, by = found_in(tmp_path)
    assert not by and "Give the folder around" in found.ignored[0][1]
    _, by = found_in(tmp_path, student="Ada")
    assert set(by) == {("Ada", "lab-01"), ("Ada", "lab-03")}


def test_one_students_folder_whatever_it_is_called(tmp_path):
    write(tmp_path, "lab-01-tp-sharding-math/starter.py", data=STARTER)
    write(tmp_path, "mine/starter-01 (2).py")
    _, by = found_in(tmp_path, student="Ada")
    assert by["Ada", "lab-01"].source == CODE


# --- which of several --------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["today's", "an older one"])
def test_an_untouched_starter_ranks_last_and_says_so(tmp_path, version):
    """Of whatever version of the course, as its first line tells."""
    body = "x = 1  # of last month\n"
    older = f"# lab-01 starter: write here. [{starters._digest(body)}]\n{body}".encode()
    untouched = STARTER if version == "today's" else older
    tree = "ada/phase-10/labs/lab-01-tp-sharding-math/starter.py"
    write(tmp_path, tree, "bo/starter-01.py", data=untouched.replace(b"\n", b"\r\n"))
    write(tmp_path, "ada/starter.py")
    found, by = found_in(tmp_path)
    assert by["ada", "lab-01"].source == CODE and not by["ada", "lab-01"].notes
    assert "without a change" in by["bo", "lab-01"].notes[0]


def test_of_a_whole_course_a_lab_that_is_not_begun_is_not_handed_in(tmp_path):
    tree = "phase-10/labs/lab-01-tp-sharding-math/starter.py"
    write(tmp_path, f"ada/{tree}", f"bo/{tree}", data=STARTER)
    write(tmp_path, f"ada/{tree.replace('01-tp-sharding-math', '03-tp-comm-cost')}")
    assert found_in(tmp_path)[1].keys() == {("ada", "lab-03"), ("bo", "lab-01")}
    assert ("ada", "lab-01") in found_in(tmp_path, only="lab-01")[1]


OTHERS = "backup/starter.py", "starter.py", "my starter2.py", "x/starter-2.py"


@pytest.mark.parametrize("other", OTHERS)
def test_a_file_that_names_the_lab_comes_before_one_that_does_not(tmp_path, other):
    write(tmp_path, f"ada/{other}", data=b"y = 2\n")
    write(tmp_path, "ada/starter-01.py")
    assert found_in(tmp_path)[1]["ada", "lab-01"].source == CODE


def test_the_highest_copy_counts(tmp_path):
    names = ["starter-01.py", "starter-01 - Copy.py", "starter-01 copy 2.py", "starter-01 (10).py"]
    for n, name in enumerate(names):
        write(tmp_path, f"ada/{name}", data=f"x = {n}\n".encode())
    assert found_in(tmp_path)[1]["ada", "lab-01"].source == b"x = 3\n"


def test_a_first_choice_that_cannot_be_read_falls_through(tmp_path):
    write(tmp_path, "ada/starter-01 (2).py", data="x = 1\n".encode("utf-16"))
    write(tmp_path, "ada/starter-01 (1).py/x", "ada/starter-01.py")
    one = found_in(tmp_path)[1]["ada", "lab-01"]
    assert one.source == CODE and "save it as UTF-8" in one.notes[0]


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (["lab01.py"], True),
        (["starter-01-final.py"], True),
        (["work/my_lab_01.py", "report.pdf"], True),
        (["lab01.py", "helper.py"], False),
        (["solution.py"], False),  # of which lab?
    ],
)
def test_the_only_program_of_a_student_is_taken_and_flagged(names, taken, tmp_path):
    write(tmp_path, *(f"ada/{name}" for name in names), "bo/starter-01.py", "bo/starter-03.py")
    one = found_in(tmp_path)[1]["ada", "lab-01"]
    assert (one.source == CODE) is taken
    assert ("only program" in one.notes[0]) if taken else names[0] in one.problem


# --- what is dangerous to open -----------------------------------------------------------------


def test_links_pipes_sockets_devices_and_sparse_files(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the instructor's")
    root = tmp_path / "in"
    for name in ("link", "loop", "pipe", "sparse", "socket", "dangling", "device"):
        (root / name).mkdir(parents=True)
    (root / "link/starter-01.py").symlink_to(secret)
    (root / "dangling/starter-01.py").symlink_to("/nowhere")
    (root / "loop/lab-01").symlink_to(root, target_is_directory=True)
    os.mkfifo(root / "pipe/starter-01.py")
    if os.getuid() == 0:
        zero = os.makedev(1, 5)
        os.mknod(root / "device/starter-01.py", 0o600 | stat.S_IFCHR, zero)
    with open(root / "sparse/starter-01.py", "wb") as file:
        file.truncate(2 << 30)
    write(root, "good/starter-01.py")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        try:
            os.chdir(root / "socket")  # a socket's path may not be long
            listener.bind("starter-01.py")
        finally:
            os.chdir(here)
        found, by = found_in(root)
    assert students_of(found) == {"good"}
    problems = {one.student: one.problem for one in found.handins}
    for name in ("link", "dangling", "loop"):
        assert "a link, which is not followed" in problems[name]
    assert str(2 << 30) in problems["sparse"] and "pipe, socket or device" in problems["pipe"]


@pytest.mark.parametrize("inner", [False, True], ids=["of all", "a student's"])
def test_hostile_members_of_a_zip_file(tmp_path, inner):
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
    if inner:
        write(tmp_path / "in", "jo/work.zip", data=path.read_bytes())
        path = tmp_path / "in"
    found, by = found_in(path)
    assert by["jo" if inner else "ada", "lab-01"].source == CODE
    assert "not hers" not in str([one.source for one in found.handins if one.student == "ada"])
    if not inner:
        assert "limit" in by["cy", "lab-01"].problem and "link" in by["dan", "lab-01"].problem


def test_a_zip_that_lies_about_its_size(tmp_path):
    data = bytearray(zipped({"ada/starter-01.py": bytes(50 << 20)}))
    true_size = (50 << 20).to_bytes(4, "little")
    assert data.count(true_size) == 2
    path = tmp_path / "all.zip"
    path.write_bytes(data.replace(true_size, (10).to_bytes(4, "little")))
    assert found_in(path)[1]["ada", "lab-01"].source is None


@pytest.mark.timeout(20)
def test_a_zip_of_99000_entries_is_refused_at_once(tmp_path):
    """Whatever each of them points to, and however many such files there are."""
    path = tmp_path / "in/eve/work0.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for n in range(99_000):
            archive.writestr(f"{n}", b"")
    for n in range(1, 10):
        os.link(path, path.with_name(f"work{n}.zip"))
    write(tmp_path / "in", "bo/starter-01.py")
    calls, (_, by) = calls_made(found_in, tmp_path / "in")
    assert calls < 99_000  # not one per entry
    assert by["bo", "lab-01"].source == CODE and "too many files" in by["eve", "lab-01"].problem


def test_the_budget_of_archives_is_each_students(tmp_path, monkeypatch):
    monkeypatch.setattr(handins, "MOST_STUDENT_BYTES", 1 << 20)
    members = {"data.bin": os.urandom(400_000), "lab-01/starter.py": CODE}
    write(tmp_path, "ada/lab-01.zip", data=zipped(members))
    for n in range(4):
        write(tmp_path, f"eve/part-{n}.zip", data=zipped({"data.bin": os.urandom(400_000)}))
    _, by = found_in(tmp_path)
    assert by["ada", "lab-01"].source == CODE
    assert "more than 1 MiB" in by["eve", "lab-01"].problem


@pytest.mark.parametrize("seed", range(40))
def test_no_bytes_of_an_archive_stop_the_run(tmp_path, seed):
    """A good zip file, also one with the records of zip64, with some of its bytes changed."""
    chance = random.Random(seed)
    data = bytearray(zipped({"lab-01/starter.py": CODE, "x" * 50: b""}))
    if seed % 2:
        end = data.index(b"PK\5\6")
        locator = b"PK\6\7" + bytes(chance.randrange(256) for _ in range(16))
        data[end:end] = b"PK\6\6" + bytes(chance.randrange(4) for _ in range(52)) + locator
    for _ in range(chance.randint(1, 12)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    write(tmp_path, "eve/work.zip", data=bytes(data))
    write(tmp_path, "ada/starter-01.py")
    assert "ada" in students_of(found_in(tmp_path)[0])


def test_a_folder_too_deep_harms_nobody(tmp_path):
    deep = tmp_path / "eve"
    deep.mkdir()
    here = os.getcwd()
    try:
        os.chdir(deep)
        for _ in range(1200):
            os.mkdir("x")
            os.chdir("x")
    finally:
        os.chdir(here)
    write(tmp_path, "ada/lab-01/starter.py")
    try:
        assert students_of(found_in(tmp_path)[0]) == {"ada"}
    finally:
        subprocess.run(["rm", "-rf", deep], check=True)


def test_broken_zips_and_zips_in_zips_are_named(tmp_path):
    write(tmp_path, "ada/work.zip", data=b"PK\3\4 this is no zip file")
    inner = zipped({"middle.zip": zipped({"lab-01/starter.py": CODE})})
    write(tmp_path, "cy/outer.zip", data=inner)
    write(tmp_path, "bo/starter-01.py")
    found, by = found_in(tmp_path)
    assert students_of(found) == {"bo"}
    assert "work.zip: not a zip file, though it is called one" in by["ada", "lab-01"].problem
    assert "a zip file in a zip file" in by["cy", "lab-01"].problem
    with pytest.raises(Problem, match="neither a folder nor a zip"):
        collect(tmp_path / "ada/work.zip", labs())
    with pytest.raises(Problem, match="does not exist"):
        collect(tmp_path / "nowhere", labs())


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"x = 1\n\0", "NUL"),
        (b"x" * ((4 << 20) + 1), "limit"),
    ],
)
def test_bytes_that_are_no_program_are_a_problem_with_a_reason(tmp_path, data, word):
    write(tmp_path, "ada/starter-01.py", data=data)
    one = found_in(tmp_path)[1]["ada", "lab-01"]
    assert one.source is None and word in one.problem


def test_names_that_act_are_made_inert(tmp_path):
    write(tmp_path, "ada/starter-01.py", "\x1b[31mbo/starter-01.py", "\u202ecy/starter-01.py")
    write(tmp_path, unicodedata.normalize("NFD", "José") + "/starter-01.py")
    found, _ = found_in(tmp_path)
    assert students_of(found) == {"ada", "bo", "cy", "José"}
    assert all(one.where.isprintable() for one in found.handins)
