"""Everybody on the roster has one row, under their own name, whatever the export calls them."""

import csv
import io
import unicodedata
from datetime import datetime

import pytest

from grading import exports
from grading.gradebook import Gradebook
from grading.problem import Problem
from grading.roster import NOT_HANDED_IN, Person, assign, read_roster
from grading.submissions import Submission, read_submissions
from tests.test_grading_exports import record
from tests.test_grading_submissions import CODE, LABS, write, zipped

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Lab 01 (44)
    Points Possible,,,,,100
"Núñez, José",12,s-1,jose,A,
"Poe, Bo",13,s-2,bo,A,
"Doe, Jane",14,s-3,jane,A,
"Doe, Jane",15,s-4,jane2,B,
Cy O'Brien,16,s-5,cy,B,
"""
NFD = unicodedata.normalize("NFD", "José Núñez")
SHAPES = {  # where each of them hands in; nobody called Cy does
    "Canvas": ("núñezjosé_12_9_starter-01.py", "poebo_LATE_13_9_starter-01.py"),
    "Moodle": (
        f"{NFD}_77_assignsubmission_file_/starter-01.py",
        "Bo Poe_14_assignsubmission_file_/starter-01.py",  # no number of Jane's
    ),
    "Blackboard": (
        "Lab 01_jose_attempt_2026-11-01-10-00-00_starter.py",
        "Lab 01_bo_attempt_2026-11-02-10-00-00_my starter.py",
        "Lab 01_bo_attempt_2026-11-02-10-00-00.txt",
    ),
    "Brightspace": (
        "7-9 - José Núñez - Nov 1, 2026 1000 AM/starter-01.py",
        "8-9 - Bo Poe - 2 November, 2026 1000 AM/starter-01.py",
        "index.html",
    ),
    "plain": (f"{NFD}/lab-01/starter.py", "José Núñez/lab-01/old/starter.py", "bo/starter-01.py"),
}
SHAPES["GitHub Classroom"] = tuple(
    f"lab-submissions/lab-{n}/lab-01/starter.py" for n in ("jose", "bo")
)


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text(CANVAS, encoding="utf-8")
    return read_roster(path)


def found_in(root, people, **options):
    found = read_submissions(root, LABS, **options)
    submissions, questions = assign(found.submissions, found.unrecognised, people, ["lab-01"])
    return found, {one.student: one for one in submissions}, questions


def test_a_canvas_export_is_a_roster(people):
    assert people[1] == Person("Poe, Bo", "Poe, Bo", "13", "s-2", "bo", "", "A")
    assert [person.student for person in people[2:]] == [
        "Doe, Jane (14)",
        "Doe, Jane (15)",
        "Cy O'Brien",
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["folder", "zip"])
def test_whose_a_hand_in_is_in_every_shape(shape, kind, people, tmp_path):
    root = tmp_path / "in"
    write(root, *SHAPES[shape])
    if kind == "zip":
        files = [path for path in root.rglob("*") if path.is_file()]
        root = zipped(tmp_path / "all.zip", {str(p.relative_to(root)): CODE for p in files})
    deadline = datetime.fromisoformat("2026-11-01T22:00+00:00")
    timed = shape in ("Blackboard", "Brightspace")
    found, by, questions = found_in(root, people, deadline=deadline if timed else None)
    assert set(found.shapes) == {shape} and not questions and not found.ignored
    assert set(by) == {person.student for person in people}
    assert by["Núñez, José"].source == by["Poe, Bo"].source == CODE
    assert not by["Núñez, José"].late
    late = {"Canvas": "late (Canvas)"} | dict.fromkeys(
        ("Blackboard", "Brightspace"), f"12 h after the deadline ({shape})"
    )
    assert by["Poe, Bo"].late == late.get(shape, "")
    assert by["Cy O'Brien"].problem == by["Doe, Jane (14)"].problem == NOT_HANDED_IN


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
"""


@pytest.mark.parametrize("roster", [True, False])
def test_both_partners_of_a_gradescope_group_get_a_row(roster, people, tmp_path):
    write(tmp_path / "in", "submission_1/starter-01.py", "submission_2/notes.txt")
    more = "submission_2:\n  :submitters:\n  - :name: Bo Poe\n  - :name: Jane Doe\n    :sid: s-4\n"
    write(tmp_path / "in", "submission_metadata.yml", data=(METADATA + more).encode())
    deadline = datetime.fromisoformat("2026-11-01T23:00+00:00")
    _, by, questions = found_in(tmp_path / "in", people if roster else [], deadline=deadline)
    names = ("Cy O'Brien (1)", "José Núñez (1)", "Bo Poe (2)", "Jane Doe (2)")
    if roster:
        names = ("Cy O'Brien", "Núñez, José", "Poe, Bo", "Doe, Jane (15)")
    assert [by[name].source for name in names] == [CODE, CODE, None, None] and not questions
    assert {by[name].late for name in names[:2]} == {"30 min after the deadline (Gradescope)"}
    assert all("there is notes.txt" in by[name].problem for name in names[2:])


def test_what_could_be_two_peoples_is_a_question_and_stays_under_its_own_name(people):
    def one(student, *clues):
        return Submission(student, "lab-01", student, CODE, clues=clues)

    rows = [one("jane", "Jane Doe"), one("x", "14", "Bo Poe"), one("eve", "Eve", "99")]
    rows += [one("bo 1", "Bo Poe"), one("bo 2", "s-2")]
    submissions, questions = assign(rows, [], people, ["lab-01"])
    assert dict(questions).keys() == {"jane", "x", "eve", "bo 2"}
    assert "Doe, Jane (14) or Doe, Jane (15)" in dict(questions)["jane"]
    by = {one.student: one.source for one in submissions}
    assert by["jane"] == by["x"] == by["eve"] == by["Poe, Bo"] == by["bo 2"] == CODE
    assert by["Doe, Jane (14)"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column called name"),
        ("mail,id\nx,1\n", "no column called name"),
        ("name,id\nBo,1\nBo,1\n", r"Bo \(1\) is there twice"),
        ("name,id\n" + "x" * 200_000 + ",1\n", "no CSV file: field larger"),
        (None, "cannot be read"),
    ],
)
def test_a_roster_that_is_none_is_one_sentence(text, words, tmp_path):
    if text is not None:
        (tmp_path / "r.csv").write_text(text)
    with pytest.raises(Problem, match=words):
        read_roster(tmp_path / "r.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_a_roster_as_excel_saves_it(encoding, comma, tmp_path):
    rows = [["Last Name", "First Name", "E-mail", "SID"], ["Núñez", "José", "j@x.edu", "7"], []]
    text = "\r\n".join(comma.join(row) for row in rows)
    (tmp_path / "r.csv").write_bytes(text.encode(encoding))
    name = "José Núñez"
    assert read_roster(tmp_path / "r.csv") == [Person(name, name, sis_id="7", email="j@x.edu")]


def canvas_reads(text):
    """{id: {assignment: grade}} by the rules of Canvas' lib/gradebook_importer.rb."""
    rows = [row for row in csv.reader(io.StringIO(text)) if any(row)]
    head = rows[0]
    assert "Student" in head[0] and "ID" in head[1] and "Section" in head[4]
    assert head[2:4] == ["SIS User ID", "SIS Login ID"]
    students = [row for row in rows[1:] if "Points Possible" not in row[0]]
    assert "Points Possible" in rows[1][0] and set(rows[1][5:]) == {"100"}
    return {row[1]: dict(zip(head[5:], row[5:], strict=True)) for row in students}


def test_a_line_may_end_before_its_empty_cells(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text("email,First name,Last name\nada@x.org,Ada,Lovelace\nbo@x.org,Bo\nnobody\n\n")
    assert [(person.name, person.email) for person in read_roster(path)] == [
        ("Ada Lovelace", "ada@x.org"),
        ("Bo", "bo@x.org"),
    ]


def test_letters_that_nobody_sees_neither_cut_a_row_nor_reach_a_screen(tmp_path):
    text = 'name,id\nZo\x1b]0;pwn\x07e,1\nBob\x85Poe,2\n"Cy\u2028Fox",3\nDee\x0bEll,4\n'
    (tmp_path / "r.csv").write_text(text, encoding="utf-8", newline="")
    people = read_roster(tmp_path / "r.csv")
    assert [person.name for person in people] == ["Zoe", "Bob Poe", "Cy Fox", "Dee Ell"]


def test_canvas_moodle_and_excel_read_their_file(people, tmp_path):
    missing = {"outcome": "missing", "earned": 0}
    nothing = record() | {"score": 0}
    nothing["claims"] = [claim | missing for claim in nothing["claims"]]
    results = {"Núñez, José": record(), "Poe, Bo": nothing, "Cy O'Brien": nothing}
    with Gradebook(tmp_path, write=True) as gradebook:
        gradebook.set_people(people)
        gradebook.set_hand_ins(
            (name, "lab-01", f"{n:064x}", "", "late (Canvas)") for n, name in enumerate(results)
        )
        for n, (name, result) in enumerate(results.items()):
            gradebook.commit(f"{n:064x}", name, "lab-01", result, 0.1)
        gradebook.adjust("Cy O'Brien", "lab-01", 55, "=on paper")
        exports.write_exports(gradebook, tmp_path)
    text = (tmp_path / "canvas.csv").read_text(encoding="utf-8")
    expected = {"12": "40", "13": "", "14": "", "15": "", "16": "55"}
    assert canvas_reads(text) == {number: {"lab-01": score} for number, score in expected.items()}
    rows = list(csv.DictReader(io.StringIO((tmp_path / "moodle.csv").read_text(encoding="utf-8"))))
    assert {row["ID number"]: row["lab-01"] for row in rows} == {
        f"s-{int(number) - 11}": score for number, score in expected.items()
    }
    data = (tmp_path / "grades.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbfstudent,")
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO(data.decode("utf-8-sig")))}
    assert rows["Cy O'Brien"]["adjusted"] == "lab-01: Adjusted by +55: =on paper"
    assert (
        rows["Núñez, José"]["late"] == "lab-01: late (Canvas)" and rows["Poe, Bo"]["lab-01"] == ""
    )
