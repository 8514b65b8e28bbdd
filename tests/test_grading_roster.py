"""Everybody on the roster has one row, under their own name, whatever the export calls them."""

from datetime import datetime

import pytest

from grading.commands import lab_named
from grading.gradebook import labs
from grading.handins import HandIn, collect
from grading.roster import (
    Person,
    assign,
    mark_late,
    read_adjustments,
    read_roster,
    share_in_groups,
)
from grading.text import Problem
from tests.class_of_20 import KINDS, PEOPLE, SHAPES, roster
from tests.class_of_20 import write as write_class

CANVAS = """\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Lab 01 (44)
    Points Possible,,,,,100
"Núñez, José",12,s-1,jose,A,
"Poe, Bo",13,s-2,bo,A,
"Doe, Jane",14,s-3,jane,A,
"Doe, Jane",15,s-4,jane2,B,
Cy O'Brien,16,s-5,cy,B,
"Student, Test",99,,,A,
"""


@pytest.fixture
def people(tmp_path):
    return read(tmp_path, CANVAS)


def read(folder, text, name="r.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return read_roster(path)


def one(name, *numbers, shape="plain", **more):
    clues = (name, *numbers)
    return HandIn(
        more.pop("student", name), "lab-01", f"{name}/starter-01.py", shape, b"x", "", clues, **more
    )


def rows(handins):
    return {handin.student: handin.where for handin in handins}


# --- reading -----------------------------------------------------------------------------------


def test_a_canvas_export_is_a_roster(people):
    assert people[1] == Person("Poe, Bo", "Poe, Bo", "13", "s-2", "bo", section="A")
    names = ["Núñez, José", "Poe, Bo", "Doe, Jane (14)", "Doe, Jane (15)", "Cy O'Brien"]
    assert [person.student for person in people] == names


@pytest.mark.parametrize("shape", ["canvas", "moodle", "gradescope", "classroom50"])
def test_each_platforms_roster_is_read_as_it_is(shape, tmp_path):
    people = read(tmp_path, roster(shape))
    assert len({person.student for person in people}) == len(PEOPLE) == len(people)
    assert "Sukarno" in {person.name for person in people}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("comma", [",", ";", "\t"])
def test_a_roster_as_excel_saves_it(encoding, comma, tmp_path):
    lines = [["Last Name", "First Name", "E-mail", "SID"], ["Núñez", "José", "j@x.edu", "7"]]
    text = "\r\n".join(comma.join(line) for line in [*lines, ["Poe", "Bo"], []])
    name = "José Núñez"
    wanted = [Person(name, name, sis_id="7", email="j@x.edu"), Person("Bo Poe", "Bo Poe")]
    assert read(tmp_path, text, encoding=encoding) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no header with the columns"),
        ("mail,id\nx,1\n", "has no header with the columns"),
        ("name,id\nBo,1\nBo,1\n", r"Bo \(1\) is there twice"),
        ("name,id\n" + "x" * 200_000 + ",1\n", "no CSV file: field larger"),
        ("name,extension\nBo,tomorrow\n", "tomorrow is no time for a deadline or an extension"),
    ],
)
def test_a_roster_that_is_none_is_one_sentence(text, words, tmp_path):
    with pytest.raises(Problem, match=words):
        read(tmp_path, text)


# --- whose is it -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_a_class_is_matched_in_every_shape(shape, tmp_path):
    """The two of one name are a question exactly where the export tells nothing else of them."""
    place, people = write_class(tmp_path, shape), read(tmp_path, roster(shape))
    handins = collect(place, labs()).handins
    questions = assign(handins, people)
    unclear = {"moodle": 2, "brightspace": 2, "plain": 1}.get(shape, 0)
    assert len(questions) == unclear
    assert all("could be" in why and "alias" in why for _, why in questions)
    names = {person.student for person in people}
    matched = [handin for handin in handins if handin.student in names]
    assert len(matched) == len(KINDS) - KINDS.count("absent") - unclear == len(rows(matched))


def test_an_alias_answers_whose_it_is(people, tmp_path):
    handins = [one("Jane Doe", "Participant 7", shape="Moodle", student="Jane Doe (7)")]
    whose, why = assign(handins, people)[0]
    assert "Doe, Jane (14) or Doe, Jane (15)" in why
    text = CANVAS.replace("(44)", "(44),alias").replace("jane2,B,", f"jane2,B,,x; {whose}")
    questions = assign(handins, read(tmp_path, text))
    assert list(rows(handins)) == ["Doe, Jane (15)"] and not questions


def test_a_folder_named_by_a_classmates_number_takes_no_row(people):
    """The exact name comes before a number, another case or an address; both are told."""
    for other in ("13", "s-2", "bo", "poe, BO", "Bo Poe"):
        handins = [one(other), one("Poe, Bo")]
        questions = assign(handins, people)
        assert rows(handins)["Poe, Bo"] == "Poe, Bo/starter-01.py"
        assert len(rows(handins)) == 2 and other in questions[0][0]
        assert f"{other}/" in questions[0][1] and "Poe, Bo/" in questions[0][1]


def test_of_two_claims_of_which_none_is_exact_neither_counts(people):
    handins = [one("13"), one("Bo Poe"), one("Cy O'Brien")]
    questions = assign(handins, people)
    assert set(rows(handins)) == {"13", "Bo Poe", "Cy O'Brien"} and len(questions) == 2
    assert all("neither counts" in why for _, why in questions)


def test_two_spellings_of_one_name_stay_apart(people):
    for roster_of_class in (people, []):
        handins = [one("José Núñez", student="José Núñez", when=None) for _ in range(2)]
        questions = assign(handins, roster_of_class)
        assert len(rows(handins)) == 2 and questions


def test_a_name_of_one_and_a_number_of_another_is_a_question(people):
    handins = [one("Poe, Bo", "14", shape="Canvas"), one("Eve", "99")]
    questions = assign(handins, people)
    assert questions[0][1].startswith("could be Doe, Jane (14) or Poe, Bo. In roster.csv")
    assert dict(questions)["Eve"] == "not on the roster"


# --- groups ------------------------------------------------------------------------------------


def group_of(*names, group="g1"):
    return [Person(name, name, str(n), group=group) for n, name in enumerate(names)]


def test_every_member_of_a_group_gets_the_mark():
    people = [*group_of("Ada", "Bo", "Cy"), Person("Dee", "Dee")]
    handins, told = share_in_groups([one("Bo")], people)
    assert rows(handins) == dict.fromkeys(("Ada", "Bo", "Cy"), "Bo/starter-01.py")
    assert all("handed in by Bo for the group g1" in why for _, why in told) and len(told) == 2
    handins, _ = share_in_groups([one("Bo"), one("Cy")], people)
    assert set(rows(handins)) == {"Bo", "Cy"}  # two of their own: whose is Ada's?


def test_a_hand_in_under_the_groups_name_is_each_members():
    handins, _ = share_in_groups([one("G1", student="G1 (77)")], group_of("Ada", "Bo"))
    assert set(rows(handins)) == {"Ada", "Bo"}


def test_a_section_is_no_group():
    handins, told = share_in_groups([one("p0")], group_of(*(f"p{n}" for n in range(20))))
    assert set(rows(handins)) == {"p0"} and "taken for a section" in told[0][1]


# --- late --------------------------------------------------------------------------------------


def at(text):
    return datetime.fromisoformat(text).astimezone()


def test_late_is_said_by_the_hand_ins_own_time_and_each_extension():
    people = [Person("Ada", "Ada", extension="2026-12-02"), Person("Bo", "Bo")]
    when = {"when": at("2026-12-02T12:00")}
    handins = [one("Ada", shape="Gradescope", **when), one("Bo", shape="Gradescope", **when)]
    handins += [one("Cy"), one("Dee", when=at("2026-11-30T10:00"))]
    mark_late(handins, people, "2026-11-30T12:00")
    late = [handin.late for handin in handins]
    assert late == ["", "2 days late (Gradescope's time)", "", ""]


def test_a_platforms_own_mark_is_never_overridden():
    handins = [one("Ada", shape="Canvas", late="late (Canvas)"), one("Bo", shape="Canvas")]
    mark_late(handins, [Person("Ada", "Ada", extension="2027-01-01")], "2026-12-30T12:00")
    assert handins[0].late.startswith("late (Canvas), with an extension until 2027-01-02")
    assert handins[1].late == ""


# --- adjust.csv --------------------------------------------------------------------------------


def test_adjustments_name_people_in_either_order_and_never_vanish(tmp_path):
    path = tmp_path / "adjust.csv"
    lines = ["student,lab,points,why", "Jane Doe,01,-10,late", '"Poe, Bo",lab-01,+5,oral']
    lines += ["Nobody,01,5,x", "Jane Doe,07,5,x", "Jane Doe,1,five,x", "Jane Doe,capstone,−3,x"]
    path.write_text("\n".join(lines), encoding="utf-8")
    found, questions = read_adjustments(path, ["Doe, Jane", "Bo Poe"], lab_named)
    assert [(a.student, a.lab, a.points) for a in found] == [
        ("Doe, Jane", "lab-01", -10),
        ("Bo Poe", "lab-01", 5),
        ("Doe, Jane", "capstone", -3),
    ]
    assert [whose for whose, _ in questions] == [f"adjust.csv line {n}" for n in (4, 5, 6)]
    assert all("counts for nobody" in why for _, why in questions)
