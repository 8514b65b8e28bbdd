"""Exports hold what the gradebook holds, in their readers' own shape; hostile text is inert."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import fastjsonschema
import pytest

from grading import exports
from grading.feedback import common_mistakes, next_step, next_step_parts
from grading.gradebook import Gradebook
from grading.sanitise import cell, clean, file_name

HOSTILE = (
    "=HYPERLINK('http://evil') \x1b[2J\x1b]0;owned\x07 <script>alert(1)</script> ]]> & \x00\x08 "
    "\u202egnp.exe \ud800 \u200b \x85 \"quoted\" 'so' " + "A" * 100_000
)


def record(message="", outcome="failed", hint="", broken=""):
    def claim(name, points, outcome, message=""):
        earned = points if outcome == "passed" else 0
        return {
            "name": name,
            "text": clean(name),
            "points": points,
            "earned": earned,
            "outcome": outcome,
            "message": clean(message),
            "hint": clean(hint),
            "broken": clean(broken),
        }

    return {
        "status": "graded",
        "problem": "",
        "score": 40,
        "max_score": 100,
        "not_run": 0,
        "claims": [claim("test_one", 40, "passed"), claim("test_two", 60, outcome, message)],
        "layers": ["seccomp"],
        "missing": [],
        "printed": "hello",
        "hidden_numbers": False,
        "integrity": "isolated",
        "lab_name": "lab-01-tp-sharding-math",
        "source_sha256": "0" * 64,
        "tests_sha256": "1" * 64,
        "environment": {"python": "3.11"},
        "limits": {"check_s": 10.0},
    }


def gradebook_with(folder, *rows):
    gradebook = Gradebook(folder, write=True)
    keys = [f"{n:064x}" for n in range(len(rows))]
    gradebook.set_hand_ins(
        (student, "lab-01", key, clean(student), "")
        for key, (student, _) in zip(keys, rows, strict=True)
    )
    for key, (student, content) in zip(keys, rows, strict=True):
        if content is not None:
            gradebook.commit(key, student, "lab-01", content, 0.5)
    return gradebook


def rows_of(path):
    """A CSV file as Excel reads it: in UTF-8, because its first three bytes say so."""
    return list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"))))


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
        (student, record(HOSTILE, hint=HOSTILE)),
        ("bo", record(outcome="timeout", broken=HOSTILE)),
    ]
    with gradebook_with(tmp_path, *rows) as gradebook:
        exports.write_exports(gradebook, tmp_path)
    return tmp_path


def test_every_format_is_written(hostile):
    names = {str(path.relative_to(hostile)) for path in hostile.rglob("*") if path.is_file()}
    assert {"grades.csv", "grades.json", "junit.xml", "ctrf.json", "html/index.html"} <= names
    assert len(list((hostile / "html").iterdir())) == 3
    assert len(list((hostile / "feedback").iterdir())) == 2


def test_no_export_holds_a_control_character_or_a_surrogate(hostile):
    for path in hostile.rglob("*"):
        if path.is_file() and not path.name.startswith("gradebook") and path.suffix != ".zip":
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".json":
                text = json.dumps(json.loads(text), ensure_ascii=False)
            assert not re.search(
                "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text
            )
            assert not re.search("[\ud800-\udfff]", text)
            assert "A" * 2000 not in text


def test_no_cell_of_the_csv_is_a_formula(hostile):
    rows = rows_of(hostile / "grades.csv")
    assert rows[0][:2] == ["student", "lab-01"]
    assert not [c for row in rows for c in row if c[:1] in ("=", "+", "-", "@", "|", "%")]


def test_the_pages_run_nothing_and_load_nothing(hostile):
    for path in (hostile / "html").iterdir():
        page = Tags()
        page.feed(path.read_text())
        assert not page.tags & {"script", "img", "iframe", "object", "link", "form", "base"}
        assert not [name for name in page.attributes if name.startswith("on") or name == "src"]
        assert "default-src 'none'" in path.read_text()


def test_junit_is_xml_and_counts(hostile):
    root = ElementTree.parse(hostile / "junit.xml").getroot()
    suites = list(root)
    assert [suite.get("tests") for suite in suites] == ["2", "2"]
    assert sum(int(s.get("failures")) for s in suites) == 1
    assert sum(int(s.get("errors")) for s in suites) == 1
    assert len(root.findall(".//failure")) == len(root.findall(".//error")) == 1


@pytest.mark.parametrize("labs", [["lab-01"], ["lab-01", "lab-03"]])
def test_gradescope_and_classroom_add_up(hostile, labs):
    with Gradebook(hostile) as gradebook:
        for one in gradebook.records():
            records = [one | {"lab": lab} for lab in labs]
            scope, room = exports.gradescope_results(records), exports.classroom_result(records)
            exports.to_json("gradescope", scope)
            exports.to_json("classroom", room)
            points, most = 40 * len(labs), 100 * len(labs)
            assert scope["score"] == sum(test["score"] for test in scope["tests"]) == points
            assert sum(test["score"] for test in room["tests"]) == points
            assert sum(test["max_score"] for test in scope["tests"]) == most == room["max_score"]
            assert room["status"] == "fail"
            names = [test["name"] for test in room["tests"]]
            assert len(set(names)) == len(names)


def test_exports_are_the_same_twice_and_need_no_clock(tmp_path):
    rows = [("bo", record()), ("ada", record("off by 2"))]
    with gradebook_with(tmp_path / "one", *rows) as gradebook:
        exports.write_exports(gradebook, tmp_path / "one")
    with gradebook_with(tmp_path / "two", *rows) as gradebook:
        exports.write_exports(gradebook, tmp_path / "two", ("html", "csv", "ctrf", "json"))
    for name in ("grades.csv", "ctrf.json", "grades.json", "html/index.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


NAMES = (
    *("jane", "Jane", "JANE", "con", "nul.", "..", "-rf", "a;=1+1", "\uff1d1+1;@x", 'q"u,o', "a|b"),
    *(
        "jose\u0301",
        "jos\u00e9",
        "e" * 300,
        "e" * 301,
        "\u05d0\u05d1 100",
        "]]>",
        "%00",
        "'",
        "`x`",
    ),
)


def test_nobody_is_lost_or_confused_by_a_name(tmp_path):
    with gradebook_with(tmp_path, *[(name, record()) for name in NAMES]) as gradebook:
        exports.write_exports(gradebook, tmp_path)
    text = (tmp_path / "grades.csv").read_text(encoding="utf-8-sig")
    rows = rows_of(tmp_path / "grades.csv")
    assert len(rows) == 1 + len(NAMES) and all(row[1] == "40" for row in rows[1:])
    # where the list separator is a semicolon, only quotes keep the formula inside of its cell
    assert '"a;=1+1",' in text and '"\'\uff1d1+1;@x",' in text
    for folder in ("feedback", "html"):
        files = {path.name.lower() for path in (tmp_path / folder).iterdir()} - {"index.html"}
        assert len(files) == len(NAMES) and max(map(len, files)) < 100
    records = json.loads((tmp_path / "grades.json").read_text())["records"]
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert len(records) == len(suites) == len({suite.get("name") for suite in suites}) == len(NAMES)


def test_who_has_no_score_is_shown_as_such(tmp_path):
    with gradebook_with(tmp_path, ("ada", record()), ("bo", None)) as gradebook:
        gradebook.hold(f"{1:064x}", "the sandbox is gone")
        exports.write_exports(gradebook, tmp_path)
    rows = {row[0]: row for row in rows_of(tmp_path / "grades.csv")}
    assert rows["bo"][1] == "" and rows["bo"][-1] == "lab-01"  # held: empty, not zero
    assert "the sandbox is gone" in (tmp_path / "html/index.html").read_text()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("gradescope", {"score": 1}),
        (
            "gradescope",
            {"tests": [{"name": "x", "score": "1", "max_score": 1, "status": "passed"}]},
        ),
        ("classroom", {"version": 1, "status": "fine", "max_score": 1, "tests": []}),
        ("ctrf", {"reportFormat": "CTRF"}),
        ("grades", {"schema": "grades/1", "records": [{"score": 101}], "waiting": []}),
    ],
)
def test_what_breaks_a_schema_is_not_written(schema, value):
    with pytest.raises(fastjsonschema.JsonSchemaException):
        exports.to_json(schema, value)


def test_not_a_number_is_not_written():
    with pytest.raises(ValueError):
        exports.to_json("gradescope", {"tests": [], "score": float("nan")})


def test_clean_text():
    assert clean("\x1b[31mred\x1b[0m\x1b]8;;http://x\x07link") == "redlink"
    assert clean("a\r\nb\tc\u2028d") == "a b c d"
    assert clean("at 0x7f3a5c001230>") == "at 0x...>"
    assert clean("é 漢 ok") == "é 漢 ok"
    assert len(clean("x" * 10_000)) == 1000
    assert cell("+1") == "'+1" and cell("ok") == "ok"
    assert file_name("../../etc/passwd") != file_name("etc passwd")
    assert re.fullmatch(r"[a-z0-9-]+", file_name("\ud800/..\\\0"))


def test_the_next_step_is_one_thing():
    broken = "starter.py line 3: invalid syntax"
    assert next_step(record(broken=broken)) == "Nothing could be graded: " + broken
    assert next_step(record("off by 2")).endswith("off by 2")
    assert next_step_parts(record("a: 2"))[1] == "a: 2"  # without the claim, colons or not
    assert next_step(record(outcome="passed")) == "Nothing left to do in this lab."


def test_a_file_that_does_not_load_is_no_missed_claim():
    class_of = [("ada", record("off by 2")), ("bo", record(broken="starter.py line 3: bad"))]
    records = [{"student": name, "lab": "lab-01"} | one for name, one in class_of]
    assert common_mistakes(records) == ([], [("lab-01", "test_two", 1)])
