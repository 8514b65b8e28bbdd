"""The gradebook's records in the formats that gradebooks and dashboards read.

Every export is a pure function of the records: no time of day, no duration, no order of grading is
in it, so two runs over the same submissions write the same bytes. Each is checked against its
schema before it replaces an older file, and text of a submission is inert in all of them.
"""

import csv
import io
import json
import os
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import fastjsonschema

from grading.feedback import LABELS, next_step, sentence
from grading.gradebook import Gradebook
from grading.sanitise import cell, clean, file_name

SCHEMAS = Path(__file__).parent / "schemas"
FORMATS = ("csv", "json", "junit", "gradescope", "classroom", "ctrf", "html")


@cache
def _validator(name):
    return fastjsonschema.compile(json.loads((SCHEMAS / f"{name}.json").read_text()))


def to_json(schema, value) -> str:
    """`value` as JSON text, after its schema accepted it; ASCII, so no viewer can be misled."""
    _validator(schema)(value)
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"


def write_exports(gradebook: Gradebook, folder, formats=FORMATS) -> list[Path]:
    """Write the formats below `folder`; the paths written or already as they should be."""
    records, waiting = gradebook.records(), gradebook.waiting()
    files = {}
    for name in formats:
        files |= MAKERS[name](records, waiting)
    return [_replace(Path(folder, path), text) for path, text in sorted(files.items())]


def _replace(path, text):
    data = text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != data:
        partial = path.with_name(path.name + ".part")
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    return path


def as_csv(records, waiting):
    """grades.csv: a row per student, a column per lab; empty means not graded yet."""
    labs = sorted({record["lab"] for record in records} | {lab for _, lab, _ in waiting})
    table = {}
    for record in records:
        table.setdefault(record["student"], {})[record["lab"]] = record
    for student, lab, _ in waiting:
        table.setdefault(student, {}).setdefault(lab, None)
    out = io.StringIO()
    # quoted, so that a spreadsheet that splits at semicolons finds no cell inside of a name
    writer = csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["student", *labs, "total", "not run here", "integrity", "waiting"])
    for student, row in sorted(table.items()):
        graded = [record for record in row.values() if record]
        scores = [row[lab]["score"] if row.get(lab) else "" for lab in labs]
        total = sum(record["score"] for record in graded)
        not_run = sum(record["not_run"] for record in graded)
        integrity = " ".join(sorted({record["integrity"] for record in graded}))
        missing = " ".join(sorted(lab for lab, record in row.items() if record is None))
        writer.writerow([cell(student), *scores, total, not_run, integrity, missing])
    return {"grades.csv": out.getvalue()}


def public(record) -> dict:
    """A record as it is published: without what the submission printed."""
    claim_keys = ("name", "text", "points", "earned", "outcome", "message", "hint")
    hidden = ("claims", "printed", "status", "problem", "hidden_notes", "not_compared")
    kept = {key: value for key, value in record.items() if key not in hidden}
    claims = [{key: claim[key] for key in claim_keys} for claim in record["claims"]]
    return kept | {"claims": claims, "next_step": clean(next_step(record))}


def as_json(records, waiting):
    whole = {
        "schema": "grades/1",
        "records": [public(record) for record in records],
        "waiting": [{"student": s, "lab": lab, "why": clean(why)} for s, lab, why in waiting],
    }
    return {"grades.json": to_json("grades", whole)}


def as_junit(records, waiting):
    root = ElementTree.Element("testsuites", name="grading")
    for record in records:
        outcomes = [claim["outcome"] for claim in record["claims"]]
        skipped = sum(outcome in ("not_run", "waits") for outcome in outcomes)
        errors = sum(
            outcome not in ("passed", "failed", "todo", "not_run", "waits") for outcome in outcomes
        )
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"{record['lab']} {record['student']}",
            tests=str(len(outcomes)),
            failures=str(sum(outcome in ("failed", "todo") for outcome in outcomes)),
            errors=str(errors),
            skipped=str(skipped),
        )
        for claim in record["claims"]:
            case = ElementTree.SubElement(
                suite, "testcase", classname=record["lab"], name=claim["name"]
            )
            if claim["outcome"] == "passed":
                continue
            kind = {
                "failed": "failure",
                "todo": "failure",
                "not_run": "skipped",
                "waits": "skipped",
            }
            tag = kind.get(claim["outcome"], "error")
            about = ElementTree.SubElement(case, tag, message=LABELS[claim["outcome"]])
            about.text = sentence(claim)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    ElementTree.fromstring(text)  # well-formed, whatever the sentences hold
    return {"junit.xml": '<?xml version="1.0" encoding="utf-8"?>\n' + text + "\n"}


def gradescope_results(record) -> dict:
    """One record as Gradescope's results.json."""
    return {
        "score": record["score"],
        "output": f"{next_step(record)}\n(integrity: {record['integrity']})",
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": {"key": record.get("key", ""), "integrity": record["integrity"]},
        "tests": [
            {
                "name": claim["text"],
                "score": claim["earned"],
                "max_score": claim["points"],
                "status": "passed" if claim["outcome"] == "passed" else "failed",
                "output": f"{LABELS[claim['outcome']]}. {sentence(claim)}".strip(),
                "tags": [claim["outcome"]],
            }
            for claim in record["claims"]
        ],
    }


def classroom_result(record) -> dict:
    """One record as GitHub Classroom's reporter reads it."""
    full = record["score"] == record["max_score"]
    return {
        "version": 1,
        "status": "pass" if full else "fail",
        "max_score": record["max_score"],
        "tests": [
            {
                "name": claim["text"],
                "status": "pass" if claim["outcome"] == "passed" else "fail",
                "score": claim["earned"],
                "message": sentence(claim),
                "test_code": claim["name"],
                "filename": "starter.py",
                "line_no": 0,
                "duration": 0,
            }
            for claim in record["claims"]
        ],
    }


def as_gradescope(records, waiting):
    return {
        f"gradescope/{record['lab']}/{file_name(record['student'])}.json": to_json(
            "gradescope", gradescope_results(record)
        )
        for record in records
    }


def as_classroom(records, waiting):
    return {
        f"classroom/{record['lab']}/{file_name(record['student'])}.json": to_json(
            "classroom", classroom_result(record)
        )
        for record in records
    }


def as_ctrf(records, waiting):
    status = {"passed": "passed", "not_run": "skipped", "waits": "skipped", "todo": "pending"}
    tests = [
        {
            "name": claim["text"],
            "status": status.get(claim["outcome"], "failed"),
            "duration": 0,
            "message": sentence(claim),
            "rawStatus": claim["outcome"],
            "suite": [record["lab"], record["student"]],
            "extra": {"points": claim["points"], "earned": claim["earned"]},
        }
        for record in records
        for claim in record["claims"]
    ]
    found = [test["status"] for test in tests]
    kinds = ("passed", "failed", "pending", "skipped", "other")
    summary = {"tests": len(tests), "start": 0, "stop": 0}
    summary |= {kind: found.count(kind) for kind in kinds}
    results = {"tool": {"name": "grading"}, "summary": summary, "tests": tests}
    whole = {"reportFormat": "CTRF", "specVersion": "0.0.0", "results": results}
    return {"ctrf.json": to_json("ctrf", whole)}


def as_html(records, waiting):
    from grading.pages import index_page, student_page

    students = {}
    for record in records:
        students.setdefault(record["student"], []).append(record)
    files = {"html/index.html": index_page(records, waiting)}
    for student, own in students.items():
        files[f"html/{file_name(student)}.html"] = student_page(student, own)
    return files


MAKERS = {
    "csv": as_csv,
    "json": as_json,
    "junit": as_junit,
    "gradescope": as_gradescope,
    "classroom": as_classroom,
    "ctrf": as_ctrf,
    "html": as_html,
}
