"""The gradebook in the forms that platforms read: one table of functions, each gives files.

Every export is a function of the records, the roster and adjust.csv alone, so two runs over the
same hand-ins write the same bytes. Text of a hand-in is inert in all of them.
"""

import csv
import io
import json
import os
import zipfile
from datetime import UTC, datetime

from grading import pages
from grading.gradebook import Grades, entry_of, replace_file
from grading.roster import FOR_GROUP
from grading.text import cell, file_name
from labkit.claims import shown
from labkit.scoreboard import TOTAL


def write_exports(grades: Grades):
    """Write every file of EXPORTS; those that no longer belong there go."""
    files = {name: text for export in EXPORTS for name, text in export(grades).items()}
    for folder in ("html", "feedback"):
        for path in (grades.book.folder / folder).glob("*"):
            if f"{folder}/{path.name}" not in files and path.is_file():
                path.unlink()
    for name, content in files.items():
        path = grades.book.folder / name
        data = content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != data:
            replace_file(path, data)


def _csv(rows):
    """The header as it is; below, texts are quoted: a semicolon of a name then splits no cell."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(rows[0])
    inert = [[cell(value) if isinstance(value, str) else value for value in row] for row in rows]
    csv.writer(out, lineterminator="\r\n", quoting=csv.QUOTE_NONNUMERIC).writerows(inert[1:])
    return out.getvalue()


def _scores(grades, student):
    scores = [grades.score(student, lab) for lab in grades.labs]
    return ["" if score is None else score for score in scores]


def as_csv(grades):
    """grades.csv: a row per student, a column per lab; empty where nothing was handed in."""
    known = {person.student: person for person in grades.people}
    about = ("id", "sis_id", "email", "group", "section") if known else ()
    ends = ["total", "late", "adjusted", "notes"]
    rows = [["student", *(name.replace("_", " ") for name in about), *grades.labs, *ends]]
    for student in grades.students:
        row = grades.table.get(student, {}).items()
        adjusted = [one for one in grades.adjustments if one.student == student]
        told = [(lab, record["late"]) for lab, record in row]
        points = [(one.lab, f"{one.points:+d} {one.why}") for one in adjusted]
        notes = [(lab, " / ".join(record["notes"])) for lab, record in row]
        rows.append([student, *(getattr(known.get(student), name, "") for name in about)])
        rows[-1] += [*_scores(grades, student), grades.total(student)]
        rows[-1] += ["; ".join(f"{a}: {b}" for a, b in ab if b) for ab in (told, points, notes)]
    return {"grades.csv": "\ufeff" + _csv(rows)}


def as_claims(grades):
    """claims.csv: a row per student and claim."""
    rows = ["student lab claim check points earned outcome message hint".split()]
    for student, lab, record in grades.handed_in():
        for c in entry_of(record)["claims"]:
            earned = c["points"] * (c["outcome"] == "passed")
            said = shown(c["text"], True), c["name"], c["points"], earned, c["outcome"]
            rows.append([student, lab, *said, c["message"], c["hint"]])
    return {"claims.csv": "\ufeff" + _csv(rows)}


def as_canvas(grades):
    """canvas.csv, as Canvas' gradebook imports it (its lib/gradebook_importer.rb)."""
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    possible = ["    Points Possible", "", "", "", "", *[TOTAL] * len(grades.labs)]
    return _import_file("canvas.csv", head, "name id sis_id login section", grades, [possible])


def as_moodle(grades):
    """moodle.csv, for Moodle's import of grades: map a person's column, and each lab's."""
    head = ["Full name", "ID number", "Username", "Email address"]
    return _import_file("moodle.csv", head, "name sis_id login email", grades, [])


def _import_file(file, head, fields, grades, first_rows):
    rows = [[*head, *grades.labs], *first_rows]
    for one in grades.people:
        rows.append([*(getattr(one, f) for f in fields.split()), *_scores(grades, one.student)])
    return {file: _csv(rows)} if grades.people else {}


def as_html(grades):
    own = {f"html/{file_name(s)}.html": pages.student_page(grades, s) for s in grades.students}
    return own | {"html/index.html": pages.class_page(grades)}


def as_feedback(grades):
    """feedback/LAB-canvas.zip and LAB-moodle.zip: an archive of the class, as each takes it back.

    Both know whose a file is by the name that it had in their own download. Canvas shows it under
    the handed-in file's name, so there the feedback is comments on top of that file.
    """
    archives = {}
    for student, lab, record in grades.handed_in():
        shape, name = record["shape"], record["handin"].partition("/")[0]
        path = grades.book.source(student, lab)
        if shape == "Moodle":
            whose, mark, _ = name.partition("_assignsubmission_")
            name, data = f"{whose}{mark}file_/{lab}.html", pages.student_page(grades, student)
        elif shape == "Canvas" and name.lower().endswith(".zip"):
            data = _zip({f"{lab}.html": pages.student_page(grades, student)})
        elif shape == "Canvas" and path.exists():
            text = pages.student_text(grades, student, [lab]).splitlines()
            comments = "".join(f"# {line}".rstrip() + "\n" for line in text)
            data = comments.encode() + b"\n" + path.read_bytes()
        else:
            continue
        archive = archives.setdefault(f"feedback/{lab}-{shape.lower()}.zip", {})
        shared = any(note.startswith(FOR_GROUP) for note in record["notes"])
        if not shared or name not in archive:  # the page of who handed it in
            archive[name] = data
    return {name: _zip(members) for name, members in archives.items()}


def _zip(members):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in members.items():
            out.writestr(zipfile.ZipInfo(name), data)  # of 1980: the same bytes again
    return archive.getvalue()


# --- one student's result, for autograders -----------------------------------------------------


def _tests(records):
    """(claim, its name in a total of all the records, the points earned) of each."""
    for record in records:
        entry = entry_of(record)
        lab = f"{entry['lab'].split('-tp-')[0]}: " if len(records) > 1 else ""
        if not entry["claims"]:
            nothing = {"message": entry["broken"], "hint": "", "points": TOTAL}
            yield nothing | {"outcome": "failed"}, f"{lab}the file can be graded", 0
        for claim in entry["claims"]:
            good = claim["outcome"] == "passed"  # an answer to guess first is shown only then
            yield claim, lab + shown(claim["text"], good), claim["points"] * good


def gradescope_results(records) -> str:
    """results.json (gradescope-autograders.readthedocs.io, "Specifications": output format)."""
    tests = [
        {"name": name, "score": earned, "max_score": claim["points"]}
        | {"status": "passed" if claim["outcome"] == "passed" else "failed"}
        | {"output": pages.sentence(claim), "tags": [claim["outcome"]]}
        for claim, name, earned in _tests(records)
    ]
    steps = "\n".join(pages.next_step(record) for record in records)
    whole = {"score": sum(test["score"] for test in tests), "output": steps, "tests": tests}
    whole |= dict.fromkeys(("output_format", "test_output_format", "test_name_format"), "text")
    return json.dumps(whole | {"visibility": "visible", "stdout_visibility": "hidden"}, indent=1)


def classroom50_result(records) -> str:
    """result.json by classroom50/result/v1, from the variables that Classroom 50's runner sets."""
    tests = [
        {"test-name": name, "passed": earned == c["points"], "score": earned}
        | {"max-score": c["points"]}
        for c, name, earned in _tests(records)
    ]
    said = {"classroom": "CLASSROOM", "assignment": "ASSIGNMENT", "submission": "SUBMISSION_TAG"}
    said |= {"commit": "COMMIT_URL", "release": "RELEASE_URL"}
    whole = {"schema": "classroom50/result/v1"}
    whole |= {key: os.environ.get(name, "") for key, name in said.items()}
    whole["review"] = os.environ.get("REVIEW_URL") or whole["commit"]
    whole["datetime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole["score"] = sum(test["score"] for test in tests)
    whole["max-score"] = sum(test["max-score"] for test in tests)
    return json.dumps(whole | {"tests": tests}, indent=1)


EXPORTS = as_csv, as_claims, as_canvas, as_moodle, as_html, as_feedback
