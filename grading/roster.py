"""Who is in the class, whose each hand-in is, and what the instructor adjusts: files they edit.

roster.csv   name, id, sis id, login, email, group, extension, alias; only the name is needed.
             Canvas' gradebook, Moodle's participants, Gradescope's and Classroom 50's rosters are
             read as they are. extension: until when this student may hand in. alias: what an
             export calls them, where the tool asks; several are separated by semicolons.
adjust.csv   student, lab, points, why
"""

import csv
import io
import unicodedata
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from grading.handins import HandIn
from grading.text import Problem, clean, folded

COLUMNS = {  # a field: what Canvas, Moodle, Gradescope, Classroom 50 and others call its column
    "name": "name, student, full name, student name",
    "id": "id, student id, canvas id, user id, identifier",
    "sis_id": "sis id, sis user id, sid, id number, orgdefinedid",
    "login": "login, sis login id, username, user name, github username",
    "email": "email, e-mail, email address",
    "group": "group, groups, team",
    "section": "section, sections, class",
    "extension": "extension",
    "alias": "alias",
}
HEADERS = {header: field for field, names in COLUMNS.items() for header in names.split(", ")}
MOST_IN_GROUP = 8  # more share a section, and no hand-in
FOR_GROUP = "handed in by"


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
    section: str = ""
    extension: str = ""
    alias: str = ""

    @property
    def numbers(self):
        return tuple(filter(None, (self.id, self.sis_id, self.login, self.email)))


def read_table(path, *needed) -> list[dict]:
    """The lines of a CSV file as Excel or a platform saves it, by headers in small letters.

    needed: sets of columns, of which one must be there. No file has no lines.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Problem(f"{path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    text = text.lstrip("\r\n")
    comma = max(",;\t", key=text.partition("\n")[0].count)
    try:  # some spreadsheets leave out the commas behind a line's last full cell
        lines = csv.DictReader(io.StringIO(text, newline=""), delimiter=comma, restval="")
        lines.fieldnames = [clean(c).lower().replace("_", " ") for c in lines.fieldnames or ()]
        rows = [{h: clean(cell or "", 200) for h, cell in line.items() if h} for line in lines]
    except csv.Error as error:
        raise Problem(f"{path} is no CSV file: {error}") from None
    if not any(columns <= set(lines.fieldnames) for columns in needed):
        columns = " or ".join(", ".join(sorted(columns)) for columns in needed)
        there = ", ".join(lines.fieldnames)
        raise Problem(f"{path} has no header with the columns {columns}; it has {there}")
    return rows


def read_roster(path) -> list[Person]:
    names, people = [{head} for head, field in HEADERS.items() if field == "name"], []
    for line in read_table(path, {"first name", "last name"}, *names):
        cells = reversed([cell for cell in line.items() if cell[1] and cell[0] in HEADERS])
        said = {HEADERS[head]: value for head, value in cells}  # the first of two columns counts
        said = {field: unicodedata.normalize("NFC", value) for field, value in said.items()}
        person = Person("", **said)
        both = f"{line.get('first name', '')} {line.get('last name', '')}".strip()
        name = person.name or both or next(iter(person.numbers), "")
        if name not in ("", "Points Possible", "Student, Test"):  # lines of Canvas' own
            _until(person.extension)
            people.append(replace(person, student=name, name=name))
    names = Counter(folded(person.name) for person in people)
    for n, person in enumerate(people):
        if names[folded(person.name)] > 1 and person.numbers:
            people[n] = replace(person, student=f"{person.name} ({person.numbers[0]})")
    for student, times in Counter(person.student for person in people).items():
        if times > 1:
            raise Problem(f"{path}: {student} is there twice; give them different ids")
    return people


def spellings(name) -> set[str]:
    """`Jane Doe`, `Doe, Jane` and Canvas' `doejane` in one form each."""
    first, comma, last = name.partition(",")
    words = f"{last} {first}".split() if comma else first.split()
    return {folded(" ".join(words)), folded(" ".join(words[-1:] + words[:-1]))} - {""}


def named(students, wanted) -> list[str]:
    """Those who are called so, or else so in the other order."""
    exact = [name for name in students if name == wanted]
    return exact or [name for name in students if spellings(name) & spellings(wanted)]


# --- whose is it -------------------------------------------------------------------------------


def assign(handins: list[HandIn], people: list[Person]) -> list:
    """Put the hand-ins under their students' names; [(whose, why it is a question)].

    One that could be two people's, or that two hand-ins claim, keeps the export's own name: what
    the instructor writes into roster.csv decides. An exact name comes before a number.
    """
    questions, claims, sure, index = [], {}, set(), _index(people)
    for one in handins if people else ():
        those = _whose(one, index)
        if len(those) == 1:
            claims.setdefault((those[0], one.lab), []).append(one)
        else:
            why = f"could be {_either(those)}. {_answer(one)}" if those else "not on the roster"
            questions.append((one.student, why))
    for (person, _), several in claims.items():
        aliases = index["alias", person]
        exact = [one for one in several if one.clues[0] == person.name or one.student in aliases]
        winners = several if len(several) == 1 else exact if len(exact) == 1 else []
        done = f"{winners[0].where} is graded as theirs" if winners else "neither counts"
        for one in (one for one in several if one not in winners):
            others = ", ".join(other.where for other in several if other is not one)
            why = f"{one.where} claims to be {person.student}, as does {others}: {done}"
            questions.append((one.student, f"{why}. {_answer(one)}"))
        for one in winners:
            one.student = person.student
            sure.add(id(one))
    # the others are in no row of the roster: each has a name of its own
    taken, seen = {person.student for person in people}, Counter()
    times = Counter((one.student, one.lab) for one in handins)
    for one in handins:
        key = one.student, one.lab
        if id(one) not in sure and (times[key] > 1 or one.student in taken):
            seen[key] += 1
            questions += [(one.student, f"is there {times[key]} times: {one.where}")] * (not taken)
            one.student += f" (unclear, {seen[key]})"
    return questions


def _index(people):
    """("name", "number" or "alias", key) -> people; ("alias", person) -> what they are called."""
    index = {}
    for person in people:
        index["alias", person] = aliases = {a.strip() for a in person.alias.split(";")} - {""}
        keys = {("alias", alias) for alias in aliases}
        keys |= {("name", key) for key in spellings(person.name)}
        for key in keys | {("number", folded(number)) for number in person.numbers}:
            index.setdefault(key, []).append(person)
    return index


def _whose(one, index):
    """The people whom an alias, or name and number, or else one of them could mean."""
    name, *numbers = one.clues
    if one.shape not in ("Canvas", "Moodle", "Gradescope", "Brightspace"):
        numbers = [name, *numbers]  # a folder may be called by any of them
    if those := index.get(("alias", one.student)) or index.get(("alias", name)):
        return those
    named = [person for key in spellings(name) for person in index.get(("name", key), ())]
    numbered = [p for number in numbers for p in index.get(("number", folded(number)), ())]
    both = [person for person in named if person in numbered]
    return list(dict.fromkeys(both or named + numbered))


def _either(people):
    return " or ".join(sorted(person.student for person in people))


def _answer(one):
    return f'In roster.csv, write "{one.student}" into the column alias of whose it is'


def share_in_groups(handins: list[HandIn], people: list[Person]) -> tuple[list[HandIn], list]:
    """(with a row for each member of a group of whom another handed in, sentences about that)."""
    groups, by_lab, told = {}, {}, []
    for person in people:
        groups.setdefault(person.group, set()).add(person.student)
    groups.pop("", None)
    for one in handins:
        by_lab.setdefault(one.lab, {})[one.student] = one
    # Canvas' zip file may name the group itself
    known = {person.student for person in people}
    named = {(o.lab, folded(o.clues[0])): o for o in handins if o.student not in known and o.clues}
    gone, more = set(), []
    for group, names in groups.items():
        if len(names) > MOST_IN_GROUP:
            told.append((group, f"{len(names)} people, taken for a section: no mark is shared"))
            continue
        for lab, rows in by_lab.items():
            own = [rows[name] for name in names & rows.keys()] or [named.get((lab, folded(group)))]
            good = [one for one in own if one and one.source is not None]
            if len(good) == 1:
                gone |= {id(one) for one in own if one.student not in known}
                note = f"{FOR_GROUP} {good[0].student} for the group {clean(group, 60)}"
                for name in sorted(names - {one.student for one in own}):
                    more.append(replace(good[0], student=name, notes=[*good[0].notes, note]))
                    told.append((name, f"{lab}: {note}"))
    return [one for one in handins if id(one) not in gone] + more, told


# --- late --------------------------------------------------------------------------------------


def mark_late(handins: list[HandIn], people: list[Person], deadline: str | None):
    """Say who is late, by the deadline or their own extension; a platform's own mark stays."""
    until, deadline = {p.student: _until(p.extension) for p in people}, _until(deadline)
    for one in handins:
        last = until.get(one.student) or deadline
        if one.late and until.get(one.student):
            one.late += f", with an extension until {last:%Y-%m-%d %H:%M}"
        elif not one.late and last and one.when and one.when > last:
            hours = (one.when - last).total_seconds() / 3600
            amount = f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"
            one.late = f"{amount} late ({one.shape}'s time)"


def _until(text):
    """A time, or the end of a day where no hour is named; None for nothing."""
    if not text:
        return None
    with suppress(ValueError):
        when = datetime.fromisoformat(text)
        when += timedelta(days=1) * (len(text) <= 10)
        return when if when.tzinfo else when.astimezone()
    example = "2026-11-30T23:59 or 2026-11-30"
    raise Problem(f"{text} is no time for a deadline or an extension: give one such as {example}")


# --- adjust.csv --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Adjustment:
    student: str
    lab: str
    points: int
    why: str


def read_adjustments(path, students, lab_named) -> tuple[list[Adjustment], list]:
    """([what adjust.csv says], [(whose, why a line of it counts for nobody)]).

    lab_named: gives the prefix of a lab, or a Problem.
    """
    found, questions = [], []
    for n, line in enumerate(read_table(path, {"student", "lab", "points", "why"}), start=2):
        those = named(students, line["student"])
        many = f"could be {' or '.join(sorted(those))}" if those else "is no student here"
        try:
            if len(those) != 1:
                raise Problem(f"{line['student']!r} {many}")
            lab, points = lab_named(line["lab"]), int(line["points"].replace("\u2212", "-"))
            found.append(Adjustment(those[0], lab, points, line["why"]))
        except Problem as problem:
            questions.append((f"adjust.csv line {n}", f"{problem}; it counts for nobody"))
        except ValueError:
            why = f"{line['points']!r} is no whole number of points; it counts for nobody"
            questions.append((f"adjust.csv line {n}", why))
    return found, questions
