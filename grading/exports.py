"""The gradebook's records in the formats that gradebooks and dashboards read.

Every export is a pure function of the records: no time of day, no duration, no order of grading is
in it, so two runs over the same submissions write the same bytes. Each is checked against its
schema before it replaces an older file, and text of a submission is inert in all of them.
"""

import csv
import io
import json
import zipfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import fastjsonschema

from grading.feedback import LABELS, counts, next_step, sentence
from grading.gradebook import Gradebook, replace_file
from grading.pages import index_page, student_page
from grading.problem import Problem
from grading.roster import Person
from grading.sanitise import cell, clean, file_name

SCHEMAS = Path(__file__).parent / "schemas"
KINDS = {"passed": "passed", "adjusted": "passed", "failed": "failed", "todo": "pending"}
KINDS |= dict.fromkeys(("not_run", "waits", "missing"), "skipped")  # an incident: no kind


@cache
def _validator(name):
    return fastjsonschema.compile(json.loads((SCHEMAS / f"{name}.json").read_text()))


def to_json(schema, value) -> str:
    """`value` as JSON text, after its schema accepted it; ASCII, so no viewer can be misled."""
    _validator(schema)(value)
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"


@dataclass
class Grades:
    """What the exports are made of."""

    records: list[dict]
    waiting: list[tuple[str, str, str]]
    people: list[Person]

    def by_student(self) -> dict[str, dict[str, dict | None]]:
        """student -> lab -> record, or None while there is no score."""
        table = {}
        for record in self.records:
            table.setdefault(record["student"], {})[record["lab"]] = record
        for student, lab, _ in self.waiting:
            table.setdefault(student, {}).setdefault(lab, None)
        return dict(sorted(table.items()))

    def labs(self) -> list[str]:
        return sorted(
            {record["lab"] for record in self.records} | {lab for _, lab, _ in self.waiting}
        )


def write_exports(gradebook: Gradebook, folder, formats=()) -> list[Path]:
    """Write the formats (all, if none is named); the paths written or already as they should be."""
    grades = Grades(gradebook.records(), gradebook.waiting(), gradebook.people())
    files = {}
    for name in formats or MAKERS:
        if name not in MAKERS:
            raise Problem(f"--format {name}: there are {', '.join(MAKERS)}")
        files |= MAKERS[name](grades)
    try:
        return [_replace(Path(folder, path), content) for path, content in sorted(files.items())]
    except OSError as error:
        raise Problem(
            f"cannot write the exports to {folder} ({error.strerror}); the grades are kept in "
            "the gradebook: make room or give write access, then `python -m grading export`"
        ) from None


def _replace(path, content):
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != data:
        replace_file(path, data)
    return path


def remove_student(folder, student):
    """What was written about one student alone."""
    for path in Path(folder).rglob(f"{file_name(student)}.*"):
        path.unlink()


def _csv(rows):
    """The header as it is; below, texts are quoted: a semicolon of a name then splits no cell."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(rows[0])
    csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC).writerows(rows[1:])
    return out.getvalue()


def as_csv(grades):
    """grades.csv, which Excel opens: a row per student, a column per lab; empty means no score."""
    labs, known = grades.labs(), {person.student: person for person in grades.people}
    about = ("id", "sis_id", "email", "group") if known else ()
    ends = ["total", "not run here", "late", "adjusted", "integrity", "waiting"]
    rows = [["student", *(name.replace("_", " ") for name in about), *labs, *ends]]
    for student, row in grades.by_student().items():
        there = [record for _, record in sorted(row.items()) if record]
        rows.append(
            [
                cell(student),
                *(cell(getattr(known.get(student), name, "")) for name in about),
                *(_score(row.get(lab)) for lab in labs),
                sum(record["score"] for record in there),
                sum(record["not_run"] for record in there),
                _by_lab(there, lambda record: record["late"]),
                _by_lab(there, _adjustment),
                " ".join(sorted({record["integrity"] for record in there})),
                " ".join(sorted(lab for lab, record in row.items() if not record)),
            ]
        )
    return {"grades.csv": "\ufeff" + _csv(rows)}


def _score(record):
    return record["score"] if record and counts(record) else ""


def _adjustment(record):
    return next((c["text"] for c in record["claims"] if c["outcome"] == "adjusted"), "")


def _by_lab(records, text):
    return cell(
        "; ".join(f"{record['lab']}: {said}" for record in records if (said := text(record)))
    )


def as_canvas(grades):
    """canvas.csv, as Canvas' gradebook imports it (its lib/gradebook_importer.rb)."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    return _import_file("canvas.csv", head, "name id sis_id login group", grades, True)


def as_moodle(grades):
    """moodle.csv, for Moodle's import of grades: map a person's column, and each lab's."""
    head = ["Full name", "ID number", "Username", "Email address"]
    return _import_file("moodle.csv", head, "name sis_id login email", grades)


def _import_file(file, head, fields, grades, possible=False):
    table, labs = grades.by_student(), grades.labs()
    rows = [[*head, *labs]]
    rows += [["    Points Possible", *[""] * (len(head) - 1), *[100] * len(labs)]] * possible
    for person in grades.people:
        row = table.get(person.student, {})
        own = [cell(getattr(person, field)) for field in fields.split()]
        rows.append([*own, *(_score(row.get(lab)) for lab in labs)])
    return {file: _csv(rows)} if grades.people else {}


def public(record) -> dict:
    """A record as it is published: without what the submission printed."""
    claim_keys = ("name", "text", "points", "earned", "outcome", "message", "hint")
    hidden = ("claims", "printed", "status", "problem")
    kept = {key: value for key, value in record.items() if key not in hidden}
    claims = [{key: claim[key] for key in claim_keys} for claim in record["claims"]]
    return kept | {"claims": claims, "next_step": clean(next_step(record))}


def as_json(grades):
    whole = {
        "schema": "grades/1",
        "records": [public(record) for record in grades.records],
        "people": [asdict(person) for person in grades.people],
        "waiting": [
            {"student": student, "lab": lab, "why": clean(why)}
            for student, lab, why in grades.waiting
        ],
    }
    return {"grades.json": to_json("grades", whole)}


def as_junit(grades):
    tags = {"failed": "failure", "pending": "failure", "skipped": "skipped"}
    root = ElementTree.Element("testsuites", name="grading")
    for record in grades.records:
        name = f"{record['lab']} {record['student']}"
        suite = ElementTree.SubElement(root, "testsuite", name=name)
        for claim in record["claims"]:
            case = ElementTree.SubElement(
                suite, "testcase", classname=record["lab"], name=claim["name"]
            )
            kind = KINDS.get(claim["outcome"])
            if kind != "passed":
                tag = tags.get(kind, "error")
                label = LABELS[claim["outcome"]]
                ElementTree.SubElement(case, tag, message=label).text = sentence(claim)
        suite.set("tests", str(len(record["claims"])))
        for count, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(count, str(len(suite.findall(f"testcase/{tag}"))))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    ElementTree.fromstring(text)  # well-formed, whatever the sentences hold
    return {"junit.xml": '<?xml version="1.0" encoding="utf-8"?>\n' + text + "\n"}


def _tests(records):
    """(claim, its name in a total of all the records, whether it passed) of each."""
    for record in records:
        lab = f"{record['lab']}: " if len(records) > 1 else ""
        for claim in record["claims"]:
            yield claim, lab + claim["text"], KINDS.get(claim["outcome"]) == "passed"


def gradescope_results(records) -> dict:
    """One student's records as Gradescope's results.json, with one total."""
    integrity = " ".join(sorted({record["integrity"] for record in records}))
    steps = "\n".join(next_step(record) for record in records)
    return {
        "score": sum(record["score"] for record in records),
        "output": f"{steps}\n(integrity: {integrity})",
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"integrity": integrity},
        "tests": [
            {
                "name": name,
                "score": claim["earned"],
                "max_score": claim["points"],
                "status": "passed" if passed else "failed",
                "output": f"{LABELS[claim['outcome']]}. {sentence(claim)}".strip(),
                "tags": [claim["outcome"]],
            }
            for claim, name, passed in _tests(records)
        ],
    }


def classroom_result(records) -> dict:
    """One student's records as GitHub Classroom's reporter reads them, with one total."""
    total, most = (sum(record[name] for record in records) for name in ("score", "max_score"))
    return {
        "version": 1,
        "status": "pass" if total == most else "fail",
        "max_score": most,
        "tests": [
            {
                "name": name,
                "status": "pass" if passed else "fail",
                "score": claim["earned"],
                "message": sentence(claim),
                "test_code": claim["name"],
                "filename": "starter.py",
                "line_no": 0,
                "duration": 0,
            }
            for claim, name, passed in _tests(records)
        ],
    }


def as_ctrf(grades):
    tests = [
        {
            "name": claim["text"],
            "status": KINDS.get(claim["outcome"], "failed"),
            "duration": 0,
            "message": sentence(claim),
            "rawStatus": claim["outcome"],
            "suite": [record["lab"], record["student"]],
            "extra": {"points": claim["points"], "earned": claim["earned"]},
        }
        for record in grades.records
        for claim in record["claims"]
    ]
    found = [test["status"] for test in tests]
    kinds = ("passed", "failed", "pending", "skipped", "other")
    summary = {"tests": len(tests), "start": 0, "stop": 0}
    summary |= {kind: found.count(kind) for kind in kinds}
    results = {"tool": {"name": "grading"}, "summary": summary, "tests": tests}
    whole = {"reportFormat": "CTRF", "specVersion": "0.0.0", "results": results}
    return {"ctrf.json": to_json("ctrf", whole)}


def _pages(grades):
    """(what a file of theirs is called, their page) of each student."""
    for student, row in grades.by_student().items():
        own = [record for _, record in sorted(row.items()) if record]
        yield file_name(student), student_page(student, own)


def as_html(grades):
    files = {f"html/{name}.html": page for name, page in _pages(grades)}
    return files | {"html/index.html": index_page(grades)}


def as_feedback(grades):
    """feedback/NAME.zip: a student's page, as one archive to upload where they see it."""
    files = {}
    for name, page in _pages(grades):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as out:  # its times are 1980: the same bytes again
            out.writestr(zipfile.ZipInfo("feedback.html"), page)
        files[f"feedback/{name}.zip"] = archive.getvalue()
    return files


MAKERS = {
    "csv": as_csv,
    "canvas": as_canvas,
    "moodle": as_moodle,
    "json": as_json,
    "junit": as_junit,
    "ctrf": as_ctrf,
    "html": as_html,
    "feedback": as_feedback,
}
