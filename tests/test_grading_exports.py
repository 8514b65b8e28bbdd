"""Exports hold what the gradebook holds, in their readers' own shape; hostile text is inert."""

import csv
import io
import json
import re
import zipfile
from html.parser import HTMLParser

import pytest

from grading import exports, pages
from grading.gradebook import Gradebook, Grades
from grading.handins import HandIn
from grading.roster import Adjustment, Person
from grading.text import cell, clean, file_name

HOSTILE = (
    "=HYPERLINK('http://evil') \x1b[2J\x1b]0;owned\x07 <script>alert(1)</script> ]]> & \x00\x08 "
    "\u202egnp.exe \ud800 \u200b \x85 \"quoted\" 'so' " + "A" * 100_000
)


def entry(earned=40, message="", hint="", broken="", outcome="failed"):
    def claim(name, points, outcome, message="", hint=""):
        about = {"text": f"{name} holds", "task": 1, "function": "shards", "waits_for": []}
        told = {"message": message, "hint": hint, "printed": ""}
        return {"name": name, "points": points, "outcome": outcome} | about | told

    claims = [claim("test_one", earned, "passed")] if earned else []
    claims.append(claim("test_two", 100 - earned, outcome, message, hint))
    points = {"earned": earned, "not_run": 0, "not_reached": 0, "not_selected": 0, "total": 100}
    about = {"lab": "lab-01-tp-sharding-math", "file": "starter.py", "sha256": "0" * 64}
    return about | {"broken": broken, "points": points, "claims": claims}


def grades_of(folder, rows, people=(), **more):
    """rows: (student, entry, what the hand-in has besides); one is in lab-01."""
    book = Gradebook(folder)
    for student, result, about in rows:
        one = HandIn(student, "lab-01", f"{clean(student)}/starter-01.py", "plain", b"x = 1\n")
        for name, value in about.items():
            setattr(one, name, value)
        book.keep_source(one)
        book.write(one, result)
    return Grades(book, book.records(), list(people), **more)


def rows_of(path):
    """A CSV file as Excel reads it: in UTF-8, because its first three bytes say so."""
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"))))


def written(grades):
    exports.write_exports(grades)
    return grades.book.folder


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [name for name, _ in attrs]


@pytest.fixture
def hostile(tmp_path):
    student = clean("=cmd|' /C calc'!A0 <img src=x onerror=alert(1)>")
    rows = [
        (student, entry(40, HOSTILE, HOSTILE), {"notes": [HOSTILE], "late": HOSTILE}),
        ("bo", entry(0, broken=HOSTILE), {}),
    ]
    questions = [(HOSTILE, HOSTILE)]
    adjusted = [Adjustment("bo", "lab-01", 5, HOSTILE)]
    people = [Person(student, student, "=1", group="+2"), Person("bo", "bo")]
    alike = [("lab-01", HOSTILE, [student])]
    more = {"questions": questions, "adjustments": adjusted, "alike": alike}
    return written(grades_of(tmp_path, rows, people, **more))


def test_no_export_holds_a_control_character_or_a_surrogate(hostile):
    found = [p for p in hostile.rglob("*") if p.suffix in (".csv", ".html")]
    assert len(found) == 7
    for path in found:
        text = path.read_text(encoding="utf-8")
        controls = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
        assert not re.search(controls, text) and "A" * 2000 not in text


def test_no_cell_of_a_csv_is_a_formula(hostile):
    for path in hostile.glob("*.csv"):
        rows = rows_of(path)
        assert not [c for row in rows for c in row if c[:1] in ("=", "+", "-", "@", "|", "%")]


def test_the_pages_run_nothing_and_load_nothing(hostile):
    for path in (hostile / "html").iterdir():
        page = Tags()
        page.feed(path.read_text(encoding="utf-8"))
        assert not page.tags & {"script", "img", "iframe", "object", "link", "form", "base"}
        assert not [name for name in page.attributes if name.startswith("on") or name == "src"]
        assert "default-src 'none'" in path.read_text(encoding="utf-8")


NAMES = (
    "jane",
    "Jane",
    "con",
    "nul.",
    "..",
    "-rf",
    "a;=1+1",
    "\uff1d1+1;@x",
    'q"u,o',
    "a|b",
    "]]>",
)
NAMES += ("jos\u0301e", "e" * 300, "e" * 301, "\u05d0\u05d1 100", "%00", "O'Brien, Cy", "x/../y")


def test_nobody_is_lost_or_confused_by_a_name(tmp_path):
    grades = grades_of(tmp_path, [(name, entry(), {}) for name in NAMES])
    written(grades)
    rows = rows_of(tmp_path / "grades.csv")
    assert len(rows) == 1 + len(NAMES) and all(row[1] == "40" for row in rows[1:])
    # where the list separator is a semicolon, only quotes keep the formula inside of its cell
    text = (tmp_path / "grades.csv").read_text(encoding="utf-8-sig")
    assert '"a;=1+1",' in text and '"\'\uff1d1+1;@x",' in text
    for folder in ("html", "lab-01"):
        files = {path.stem for path in (tmp_path / folder).iterdir()} - {"index"}
        assert len(files) == len(NAMES) and max(len(name.encode()) for name in files) <= 80
    assert file_name("O'Brien, Cy") == "O'Brien, Cy" and file_name("nul") != "nul"
    assert file_name("index") != "index"  # that is the class page
    taken = file_name("O’Brien, Cy")
    assert file_name(taken) != taken  # nobody's own name is another's file


def test_adjustments_are_added_and_nothing_is_cut_off(tmp_path):
    people = [Person(name, name, str(n)) for n, name in enumerate(("ada", "bo", "cy", "dee"))]
    adjusted = [("ada", 70, "oral"), ("bo", -50, "late"), ("cy", 60, "on paper")]
    adjustments = [Adjustment(who, "lab-01", points, why) for who, points, why in adjusted]
    rows = [("ada", entry(), {}), ("bo", entry(), {})]
    written(grades_of(tmp_path, rows, people, adjustments=adjustments))
    lines = {row[0]: row for row in rows_of(tmp_path / "grades.csv")}
    column = lines["student"].index("lab-01")
    scores = {name: lines[name][column] for name in ("ada", "bo", "cy", "dee")}
    assert scores == {"ada": "110", "bo": "-10", "cy": "60", "dee": ""}
    assert "lab-01: +70 oral" in lines["ada"]
    assert "-50: late" in (tmp_path / "html/bo.html").read_text(encoding="utf-8")


def canvas_reads(text):
    """{id: {assignment: grade}} by the rules of Canvas' lib/gradebook_importer.rb."""
    rows = [row for row in csv.reader(io.StringIO(text)) if any(row)]
    head = rows[0]
    assert "Student" in head[0] and "ID" in head[1] and "Section" in head[4]
    assert head[2:4] == ["SIS User ID", "SIS Login ID"]
    assert "Points Possible" in rows[1][0] and set(rows[1][5:]) == {"100"}
    return {row[1]: dict(zip(head[5:], row[5:], strict=True)) for row in rows[2:]}


def test_canvas_and_moodle_read_their_file(tmp_path):
    people = [Person("Poe, Bo", "Poe, Bo", "13", "s-2"), Person("Cy", "Cy", "16", "s-5")]
    written(grades_of(tmp_path, [("Poe, Bo", entry(), {})], people))
    text = (tmp_path / "canvas.csv").read_text(encoding="utf-8")
    assert canvas_reads(text) == {"13": {"lab-01": "40"}, "16": {"lab-01": ""}}
    moodle = csv.DictReader(io.StringIO((tmp_path / "moodle.csv").read_text(encoding="utf-8")))
    assert {row["ID number"]: row["lab-01"] for row in moodle} == {"s-2": "40", "s-5": ""}


def test_claims_csv_has_a_row_for_each_claim(tmp_path):
    written(grades_of(tmp_path, [("bo", entry(message="off by 2", hint="the bias"), {})]))
    rows = rows_of(tmp_path / "claims.csv")
    assert [row[5] for row in rows[1:]] == ["40", "0"] and rows[2][-2:] == ["off by 2", "the bias"]


# --- feedback as the platforms take it back ----------------------------------------------------


def canvas_takes(name):
    """(user, attachment), by Canvas' infer_comment_context_from_filename; None: it is ignored."""
    parts = name.split("_")
    numbers = [part for part in parts if re.fullmatch(r"\d+", part)][:2]
    return tuple(numbers) if len(numbers) == 2 and not parts[-1].startswith("link") else None


def moodle_takes(path):
    """(participant, file), by Moodle's assignfeedback_file_zip_importer; None: it is ignored."""
    parts = path.split("/")
    info = (parts[0].split("_", 4) + [""])[:5]
    if len(info) < 5 or not info[1].isdigit() or info[2:4] != ["assignsubmission", "file"]:
        return None
    return info[1], "/".join([info[4], *parts[1:]]).lstrip("/")


def test_one_archive_of_feedback_for_the_class_as_canvas_takes_it(tmp_path):
    names = ["doejane_LATE_12_345_starter-01.py", "poebo_13_346_work.zip/lab-01/starter.py"]
    about = [{"shape": "Canvas", "where": name} for name in names]
    rows = [("Jane", entry(message="off\nby 2"), about[0]), ("Bo", entry(), about[1])]
    written(grades_of(tmp_path, [*rows, ("Cy", entry(), {})]))
    with zipfile.ZipFile(tmp_path / "feedback/lab-01-canvas.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    taken = {name: canvas_takes(name) for name in members}
    assert set(taken.values()) == {("12", "345"), ("13", "346")}
    text = members[names[0]].decode()
    assert text.startswith("# lab-01: 40 of 100 points") and text.endswith("\nx = 1\n")
    compile(text, "feedback", "exec")  # comments and the hand-in alone
    inner = zipfile.ZipFile(io.BytesIO(members["poebo_13_346_work.zip"]))
    assert inner.namelist() == ["lab-01.html"]


@pytest.mark.parametrize(
    "folder", ["Jane Doe_77_assignsubmission_file_", "Jö_7_assignsubmission_file"]
)
def test_one_archive_of_feedback_for_the_class_as_moodle_takes_it(tmp_path, folder):
    about = {"shape": "Moodle", "where": f"{folder}/starter-01.py"}
    shared = about | {"notes": ["handed in by Jane for the group g1"]}
    written(grades_of(tmp_path, [("Jane", entry(), about), ("Zoe", entry(), shared)]))
    with zipfile.ZipFile(tmp_path / "feedback/lab-01-moodle.zip") as archive:
        (name,) = archive.namelist()
        assert b"<h1>Jane</h1>" in archive.read(name)
    assert moodle_takes(name) == (folder.split("_")[1], "lab-01.html")


def test_pages_of_who_is_gone_go(tmp_path):
    grades = grades_of(tmp_path, [("ada", entry(), {}), ("bo", entry(), {})])
    written(grades)
    grades.book.path("bo", "lab-01").unlink()
    written(Grades(grades.book, grades.book.records()))
    assert {path.name for path in (tmp_path / "html").iterdir()} == {"ada.html", "index.html"}


# --- autograders' results ----------------------------------------------------------------------


def test_gradescopes_results_add_up(tmp_path):
    grades = grades_of(tmp_path, [("bo", entry(message="off by 2", hint="the bias"), {})])
    whole = json.loads(exports.gradescope_results([grades.table["bo"]["lab-01"]]))
    assert whole["score"] == sum(test["score"] for test in whole["tests"]) == 40
    assert sum(test["max_score"] for test in whole["tests"]) == 100
    allowed = {"name", "score", "max_score", "status", "output", "tags"}
    assert all(set(test) <= allowed for test in whole["tests"])
    assert {test["status"] for test in whole["tests"]} == {"passed", "failed"}
    assert whole["tests"][1]["output"] == "off by 2. Hint: the bias."


def test_an_answer_to_guess_is_told_to_nobody_who_has_not_passed(tmp_path):
    result = entry(message="off by 2")
    for claim in result["claims"]:
        claim["text"] = "eight ranks take {63} steps"
    grades = grades_of(tmp_path, [("bo", result, {})])
    records = [grades.table["bo"]["lab-01"]]
    for text in (exports.gradescope_results(records), exports.classroom50_result(records)):
        names = re.findall(r'"(?:test-)?name": "(.*?)"', text)
        assert [name.encode().decode("unicode_escape") for name in names] == [
            "eight ranks take 63 steps",
            "eight ranks take … steps",
        ]
    page, text = pages.student_page(grades, "bo"), pages.student_text(grades, "bo")
    assert page.count("63 steps") == text.count("63 steps") == 1


def test_classroom50s_result_keeps_its_contract(tmp_path, monkeypatch):
    """classroom50/result/v1: these fields, whole numbers, sums; REVIEW_URL may be missing."""
    names = "CLASSROOM ASSIGNMENT SUBMISSION_TAG COMMIT_URL RELEASE_URL".split()
    for name in names:
        monkeypatch.setenv(name, name.lower())
    monkeypatch.delenv("REVIEW_URL", raising=False)
    for broken in ("", "starter.py line 3: bad"):
        rows = [("bo", entry(broken=broken) | ({"claims": []} if broken else {}), {})]
        records = list(grades_of(tmp_path, rows).table["bo"].values())
        whole = json.loads(exports.classroom50_result(records))
        keys = "schema classroom assignment submission commit release review datetime score".split()
        assert list(whole) == [*keys, "max-score", "tests"]
        assert whole["schema"] == "classroom50/result/v1" and whole["review"] == "commit_url"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", whole["datetime"])
        for test in whole["tests"]:
            assert set(test) == {"test-name", "passed", "score", "max-score"}
            assert test["test-name"] and type(test["passed"]) is bool
            assert type(test["score"]) is type(test["max-score"]) is int
        assert whole["max-score"] == sum(test["max-score"] for test in whole["tests"]) == 100
        assert whole["score"] == sum(t["score"] for t in whole["tests"]) == (0 if broken else 40)


# --- what people read --------------------------------------------------------------------------


def test_the_class_page_begins_with_who_needs_a_look(tmp_path):
    rows = [("ada", entry(message="off by 2", hint="the bias"), {}), ("bo", entry(0, "bad"), {})]
    rows += [("cy", entry(message="off by 2", hint="the bias"), {}), ("dee", entry(100), {})]
    questions = [("Jane Doe", "could be two")]
    alike = [("lab-01", "equal", ["ada", "cy"])]
    page = pages.class_page(grades_of(tmp_path, rows, questions=questions, alike=alike))
    order = ["lab-01: 4, median 40", "Jane Doe", "bo.html", "<h2>Students"]
    order += ["<h2>Claims that", "<h2>The same program"]
    places = [page.index(text) for text in order]
    assert places == sorted(places)
    missed = page[page.index("Claims that were missed") :]
    assert missed.index("ada.html") < missed.index("bo.html") < missed.index("cy.html")
    assert "no points. test_two holds: bad" in page


def test_a_students_page_and_text_say_the_same(tmp_path):
    grades = grades_of(tmp_path, [("ada", entry(message="off by 2"), {"late": "2 h late"})])
    page, text = pages.student_page(grades, "ada"), pages.student_text(grades, "ada")
    for said in ("40 of 100 points; 2 h late", "test_two holds: off by 2", "40 / 40"):
        assert said in page and said in text


def test_clean_text():
    assert clean("\x1b[31mred\x1b[0m\x1b]8;;http://x\x07link") == "redlink"
    assert clean("a\r\nb\tc\u2028d") == "a b c d"
    assert clean("at 0x7f3a5c001230>") == "at 0x...>"
    assert clean("é 漢 ok") == "é 漢 ok" and len(clean("x" * 10_000)) == 1000
    assert cell("+1") == "'+1" and cell("ok") == "ok"
