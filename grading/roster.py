"""Who is in the class, as a CSV file tells it, and whose each hand-in is."""

import csv
import io
import unicodedata
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from grading.problem import Problem
from grading.sanitise import clean
from grading.submissions import Submission

COLUMNS = {  # a field: what Canvas, Moodle, Gradescope and others call its column
    "name": "name, student, full name, student name",
    "id": "id, student id, canvas id, user id, identifier",
    "sis_id": "sis id, sis user id, sid, id number, orgdefinedid",
    "login": "login, sis login id, username, user name, github username",
    "email": "email, e-mail, email address",
    "group": "group, section, class, team",
}
HEADERS = {header: field for field, names in COLUMNS.items() for header in names.split(", ")}
NOT_HANDED_IN = "nothing was handed in"


@dataclass(frozen=True)
class Person:
    """One line of the roster. `student` is the name of their rows, which nobody else has."""

    student: str
    name: str = ""
    id: str = ""
    sis_id: str = ""
    login: str = ""
    email: str = ""
    group: str = ""


def read_roster(path) -> list[Person]:
    """The people of a CSV file with a header; UTF-8 (with or without a mark) or Windows' cp1252."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise Problem(f"--roster {path} cannot be read ({error.strerror})") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    try:
        return _unlike(_people_in(text.lstrip("\r\n"), path), path)
    except csv.Error as error:
        raise Problem(f"--roster {path} is no CSV file: {error}") from None


def _people_in(text, path):
    comma = max(",;\t", key=text.partition("\n")[0].count)
    # some spreadsheets leave out the commas behind a line's last full cell
    lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=comma, restval="")
    lines.fieldnames = [cell.strip().lower() for cell in lines.fieldnames or ()]
    named = "name" in map(HEADERS.get, lines.fieldnames)
    if not named and not {"first name", "last name"} <= set(lines.fieldnames):
        raise Problem(
            f"--roster {path} has no column called name; give a CSV file with a header of "
            "name, id, sis id, login, email, group: the name, and any of the others"
        )
    people = []
    for line in lines:
        if not named:
            line["name"] = f"{line['first name']} {line['last name']}"
        cells = ((HEADERS.get(head), _nfc(cell)) for head, cell in line.items())
        person = {field: cell for field, cell in cells if field and cell}
        if person.get("name", "Points Possible") != "Points Possible":  # a line of Canvas' own
            people.append(Person(person["name"], **person))
    return people


def _nfc(text):
    return unicodedata.normalize("NFC", clean(text, 200))


def _unlike(people, path):
    """The same people; those of one name are told apart by a number of theirs."""
    names = [person.name for person in people]
    for n, person in enumerate(people):
        if names.count(person.name) > 1:
            number = person.id or person.sis_id or person.login or person.email
            people[n] = replace(person, student=f"{person.name} ({number})")
    students = [person.student for person in people]
    if twice := [student for student in students if students.count(student) > 1]:
        raise Problem(f"--roster {path}: {twice[0]} is there twice; give them different ids")
    return people


def assign(submissions, unrecognised, people, labs):
    """(each submission under its student's name in the roster, [(whose, why) it is a question]).

    Everybody on the roster gets one for each lab: who handed in nothing, one that says so.
    """
    if not people:
        return [*submissions, *unrecognised], []
    by_clue = {}
    for person in people:
        for clue in _spellings(*asdict(person).values()):
            by_clue.setdefault(clue, set()).add(person.student)
    found, questions = {}, []
    for submission in (*submissions, *unrecognised):
        student, why = _whose(submission, by_clue)
        if (student, submission.lab) in found:
            if submission.source is None:
                continue  # beside another of the same student's
            why = f"handed in again by {student}: {submission.where}; only one can count"
            student = submission.student
        if why:
            questions.append((submission.student, why))
        found.setdefault((student, submission.lab), replace(submission, student=student))
    for person in people:
        for lab in labs:
            nothing = Submission(person.student, lab, "", None, NOT_HANDED_IN)
            found.setdefault((person.student, lab), nothing)
    return [found[key] for key in sorted(found)], questions


def _whose(submission, by_clue):
    """(the student's name in the roster, "") or (the name as given, why it is a question)."""
    those = None
    for clue in submission.clues:
        matched = set().union(*(by_clue.get(spelt, ()) for spelt in _spellings(clue)))
        if matched:  # a number that nobody has may be the platform's own
            those = matched if those is None else those & matched
    if those is None:
        return submission.student, "not on the roster"
    if not those:
        return submission.student, "its name and its number are of two people on the roster"
    if len(those) > 1:
        return submission.student, f"could be {' or '.join(sorted(those))} of the roster"
    return min(those), ""


def _spellings(*texts):
    """What a name or number is compared by: its letters, also with the last word first."""
    for text in texts:
        first, comma, last = _nfc(text).casefold().partition(",")
        words = f"{last} {first}".split() if comma else first.split()
        for order in (words, words[-1:] + words[:-1]):
            if spelt := "".join(letter for word in order for letter in word if letter.isalnum()):
                yield spelt
