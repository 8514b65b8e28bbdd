"""Find the submissions in a folder or a zip file, whatever exported it. Nothing is unpacked.

Recognised: Canvas (doejane_LATE_12_345_starter-01.py), Moodle (Jane_12_assignsubmission_file_/),
Blackboard (Lab 01_jdoe_attempt_2026-11-01-23-59-00_starter.py), Brightspace (12-34 - Jane Doe -
Nov 1, 2026 1159 PM/), Gradescope (submission_12/ with submission_metadata.yml), GitHub Classroom
(ASSIGNMENT-submissions/ASSIGNMENT-name/), and plain NAME/lab-01*/starter.py or NAME/starter-01.py.
A student may also have handed in a zip file of the same.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path

from grading.problem import Problem
from grading.sanitise import clean

MAX_FILES = 300_000  # in a folder or zip file of everybody's
MAX_STUDENT_FILES = 100_000  # looked at in one student's folder, or in one zip file of theirs
MAX_STUDENT_BYTES = 128 << 20  # of zip files, for one student
ALONE = "hand in the starter alone"
LINK = ", a link, which is not followed: hand in the files themselves"
NESTED = f", a zip file in a zip file, which is not opened: {ALONE}"

_SKIPPED = {".git", "__MACOSX", "__pycache__", "node_modules", ".venv", "venv", ".pytest_cache"}
_SKIPPED |= {"site-packages", "dist-packages", ".tox", ".ipynb_checkpoints", ".mypy_cache"}
# What each calls a student's file or folder: its own part first, for a student names the rest.
_PLATFORMS = {
    "Canvas": r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<user>\d+)_\d+_(?P<file>.+)",
    "Moodle": r"(?P<name>.+?)_(?P<user>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)",
    "Blackboard": r"(?P<name>.+?)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+)|\.txt)",
    "Brightspace": r"(?P<user>\d+)-\d+ - (?P<name>.+?) - "
    r"(?P<time>\w+ \w+,? \d{4} \d{1,2}:?\d\d ?[AP]M)",
    "Gradescope": r"(?P<name>submission_\d+)",
}
_PLAIN = r"(?is)(?P<name>.*?)(?:[-_ ]?starter.*\.py)?"  # also jane-starter-01.py, beside folders
_METADATA = ("submission_metadata.yml",)
_PLATFORMS_OWN = _METADATA, ("index.html",)
_TIMES = "%Y-%m-%d-%H-%M-%S", "%b %d %Y %I:%M %p", "%B %d %Y %I:%M %p", "%d %B %Y %I:%M %p"
_WRAPPER = re.compile(r"(?i)(assignment_\d+_export|.*-submissions|submissions?)")
_STARTER = re.compile(
    r"(?i)(?!\.)(?:.*[-_ ])?starter(?:[-_ ]?(?P<lab>\d\d|capstone))?"
    r"(?:(?: -)? copy)?(?:[-_ ]?\(?(?P<version>\d{1,3})\)?)?\.py"
)
_LAB = re.compile(r"(?i)(?:^|[^a-z0-9])(?:lab[-_ ]?0?(\d{1,2})(?!\d)|capstone(?![a-z]))")


@dataclass(frozen=True)
class Submission:
    """One student's file for one lab. `problem` says why there is no `source`."""

    student: str
    lab: str  # "lab-01"
    where: str
    source: bytes | None
    problem: str = ""
    clues: tuple = ()  # what the export says of who this is: names, numbers, an e-mail address
    late: str = ""  # a sentence, or nothing


@dataclass
class Found:
    """What was recognised, and what was not."""

    submissions: list[Submission] = field(default_factory=list)
    unrecognised: list[Submission] = field(default_factory=list)  # hand-ins without a source
    shapes: Counter = field(default_factory=Counter)  # shape -> submissions
    ignored: list[tuple[str, str]] = field(default_factory=list)  # (where, why): look at them
    older: list[tuple[str, str]] = field(default_factory=list)  # the same, of what a newer replaces
    twins: list[tuple[str, str]] = field(default_factory=list)  # (student, why it may be two)


@dataclass(frozen=True)
class _Entry:
    """A file, not yet read, or a folder, whose last name is empty."""

    path: tuple[str, ...]
    read: object = None  # read(limit) gives its bytes, or raises a Problem
    size: int = 0
    when: datetime | None = None  # its own time
    about: str = ""  # of a file such as that it is a link; of a folder why not all is looked at


@dataclass(frozen=True)
class _Owner:
    """Whose a file is, as the export tells it."""

    shape: str
    members: list  # of the group, or the one student: (name, clues) of each
    rest: tuple[str, ...]  # the path within the student's own files
    when: datetime | None = None
    late: bool = False

    @property
    def student(self):
        return self.members[0][0]


@dataclass
class _Student:
    """What is known of a student while their files are looked at."""

    owner: _Owner
    gets_row: bool = False  # else it may be a stray file
    starters: dict = field(default_factory=dict)  # lab -> [(rank, owner, where, entry)]
    too_much: list = field(default_factory=list)  # (owner, where, which budget is spent)
    other: str = ""  # something that is no starter
    told: str = ""  # why a starter, or all, is not graded


def read_submissions(
    place, labs, only=None, max_bytes=4 << 20, student=None, deadline: datetime | None = None
) -> Found:
    """Every submission under `place` for the labs ("lab-01", ...); `only` names a single lab.

    With `student`, `place` is a folder of this student's alone, whatever it holds. Who handed in
    nothing that is recognised is among the unrecognised, once for each lab of the run.
    """
    place, found = Path(place), Found()
    try:
        entries, around = _entries(place, found, (student,) if student else ())
    except OSError as error:
        raise Problem(f"{place} cannot be read: {error.strerror}") from None
    groups, patterns = _gradescope_groups(entries), _patterns(entries, around)
    said = [*map(_lab_in, around), _lab_of_groups(_students(entries, 0))]
    around = next(filter(None, reversed(said)), None)
    reading = _Reading(found, labs, only, around, around if student else None)
    for entry in entries:
        if entry.path not in _PLATFORMS_OWN:
            reading.look_at(_owner(entry.path, patterns, groups), entry)
    for name in sorted(reading.students):
        reading.choose(reading.students[name], max_bytes, deadline)
    reading.tell_who_has_none()
    return found


class _Reading:
    """Who has what, from the first file to the sentence for those who have nothing."""

    def __init__(self, found, labs, only, around, own):
        self.found, self.labs, self.only = found, labs, only
        self.around = around  # the lab that the names around the files say, or None
        self.own = own  # the same, if all is one student's, who may have named it so
        self.students = {}  # name -> _Student

    def look_at(self, owner, entry):
        student = self.students.setdefault(owner.student, _Student(owner))
        rest, where = owner.rest, clean("/".join(entry.path).rstrip("/"), 300)
        student.gets_row |= owner.shape != "plain" or len(entry.path) > 1 or bool(entry.about)
        if not entry.path[-1]:
            if entry.about:
                student.too_much.append((owner, where, entry.about))
            return
        match = _STARTER.fullmatch(rest[-1])
        if not match:
            if entry.about or len(rest) <= 2 and not rest[-1].startswith("."):
                student.other = student.other or clean("/".join(rest), 100) + entry.about
            return
        if any(part.startswith(".") for part in rest[:-1]):
            self.found.ignored.append((where, "in a hidden folder; move it out of there"))
            return
        lab, why = _lab_of(match, rest, self.only), ""
        no_student = owner.shape == "plain" and _LAB.match(owner.student)
        if lab is None and no_student and _lab_in(owner.student) != self.around:
            why = f"{owner.student} was taken for the student's name: give the folder above"
            student.gets_row = False
        elif (lab := lab or self.around) is None:
            why = "which lab? Name it starter-01.py, put it in a folder lab-01, or use --lab 01"
        elif lab not in self.labs:
            why = f"{lab} is not one of {', '.join(sorted(self.labs))}"
        if why:
            self.found.ignored.append((where, why))
            student.told = why
        elif self.only in (None, lab):
            candidate = self._rank(match, lab, owner), owner, where, entry
            student.starters.setdefault(lab, []).append(candidate)

    def _rank(self, match, lab, owner):
        """The first counts: the last attempt, one that names the lab, the highest number."""
        rest, version = owner.rest, int(match["version"] or 0)
        names_it = _lab_of(match, rest, self.own) == lab  # not only the instructor does
        return -_seconds(owner.when), not names_it, -version, "labs" not in rest, len(rest), rest

    def choose(self, student, max_bytes, deadline):
        """Read the one that counts of each lab; say what was not looked at."""
        has_one = bool(student.starters)
        for lab, several in sorted(student.starters.items()):
            several.sort(key=lambda candidate: candidate[0])
            _, owner, where, entry = several[0]
            for _, _, other, its in several[1:]:
                self.found.older.append((other, f"{where} is graded instead"))
                if _nfc(its.path[0]) == _nfc(entry.path[0]) and its.path[0] != entry.path[0]:
                    why = f"{other} and {where} differ in how their letters are encoded: are they"
                    why += " two people's? Only one is graded"
                    self.found.twins.append((owner.student, why))
            source, problem = _source(entry.read, max_bytes)
            late = _late(owner, entry, deadline)
            self._add(Submission(owner.student, lab, where, source, problem, late=late), owner)
        for owner, where, why in student.too_much:
            student.told = why
            lab = self.only or _lab_in("/".join(owner.rest))
            if has_one:
                why = why.replace(ALONE, "the rest was not looked at")
            elif lab in self.labs and lab not in student.starters:
                student.starters[lab] = []
                self._add(Submission(owner.student, lab, where, None, why), owner)
            self.found.ignored.append((where, why))

    def _add(self, submission, owner):
        self.found.submissions += _each_member(submission, owner)
        self.found.shapes[owner.shape] += 1

    def tell_who_has_none(self):
        labs = {self.only} if self.only else {one.lab for one in self.found.submissions}
        number = self.only.removeprefix("lab-") if self.only else "NN"
        nothing = f"no starter.py or starter-{number}.py" + f" for {self.only}" * bool(self.only)
        without = []
        for name, student in sorted(self.students.items()):
            if student.starters:
                continue
            there = f"; there is {student.other}" if student.other else " in it"
            why = student.told or nothing + there
            for lab in sorted(labs) if student.gets_row else ():
                one = Submission(name, lab, clean(name), None, why)
                self.found.unrecognised += _each_member(one, student.owner)
            if not student.told:
                without.append((name, why))
        self.found.ignored[:0] = without  # first: they get no points at all


def _each_member(submission, owner):
    """The submission once for each of its group."""
    return [replace(submission, student=name, clues=clues) for name, clues in owner.members]


def _late(owner, entry, deadline):
    """What is said of a late hand-in: what the platform says, or its time after the deadline."""
    when = owner.when or entry.when
    if deadline is None or when is None:
        return "late (Canvas)" if owner.late else ""
    after = _seconds(when, deadline.tzinfo) - _seconds(deadline)
    if after <= 0 or owner.shape == "GitHub Classroom":  # a clone's files are as old as the clone
        return ""
    by = owner.shape if owner.when else "its file's time"
    amount = f"{after / 60:.0f} min" if after < 7200 else f"{after / 3600:.0f} h"
    amount = amount if after < 172_800 else f"{after / 86_400:.0f} days"
    return f"{amount} after the deadline ({by})"


def _seconds(when, zone=None):
    if when is None:
        return 0
    return (when.replace(tzinfo=zone) if when.tzinfo is None else when).timestamp()


def _time(text):
    """A time as Gradescope, Blackboard or Brightspace writes it, or None."""
    when = None
    with contextlib.suppress(ValueError):
        when = datetime.fromisoformat(text.strip().replace(" ", "T", 1).replace(" ", ""))
    text = re.sub(r"(\d?\d):?(\d\d) ?(?=[AP]M)", r"\1:\2 ", text.replace(",", ""))
    for form in _TIMES:
        with contextlib.suppress(ValueError):
            when = when or datetime.strptime(text, form)
    return when if when and when.year > 1970 else None  # no clock tells the others in seconds


def read_one(path, max_bytes=4 << 20) -> tuple[bytes | None, str]:
    """(source, "") or (None, why not) of a single file."""
    return _source(partial(_read_file, path), max_bytes)


# --- files ----------------------------------------------------------------------------------------


def _entries(place, found, student):
    """(every file without what an export lays around them, the names of the folders around them)

    With a name in `student`, all of it is theirs.
    """
    if place.is_dir():
        tops = [(item.name, _is_folder(item)) for item in os.scandir(place)]
        depth = 1 if student else _depth(tops)
        entries = _walk(place, found, student, depth)
    elif place.is_file():
        try:
            entries = list(_zip_entries(lambda: open(place, "rb"), (), found))
        except zipfile.BadZipFile:
            raise Problem(f"{place} is neither a folder nor a zip file") from None
        depth = _depth((entry.path[0], len(entry.path) > 1) for entry in entries)
    else:
        raise Problem(f"{place} does not exist")
    entries = list(islice(_worth_a_look(entries, depth), MAX_FILES + 1))
    if len(entries) > MAX_FILES:
        raise Problem(f"more than {MAX_FILES} files; is this the right folder?")
    entries = list(_with_inner_zips(entries, found, depth))
    name = place.resolve().name
    entries, wrapper = (entries, ()) if student else _without_wrapper(entries, found, name)
    return entries, (name, *wrapper)


def _depth(tops):
    """How many names of a path say whose it is: two, if one folder may be around everybody's."""
    return 1 + (sum(not _stray(name, folder) for name, folder in set(tops)) == 1)


def _stray(name, folder):
    """Whether something at the top, such as .DS_Store or roster.csv, is nobody's hand-in."""
    if folder:
        return name in _SKIPPED or name.startswith(".")
    return not _may_matter(name)


def _may_matter(name):
    return name in _METADATA or name.lower().endswith(".zip") or bool(_STARTER.fullmatch(name))


def _worth_a_look(entries, depth):
    """Of what is no submission: all that lies beside the students' folders, and one in each."""
    told = set()
    for entry in entries:
        folder, name = entry.path[:-1][: depth + 2], entry.path[-1]
        if len(folder) < depth or not name or _may_matter(name):
            yield entry
        elif folder not in told:
            told.add(folder)
            yield entry


def _walk(root, found, above, depth):
    """The files below root, and each student's folder, be it empty.

    Their paths begin with `above`, which names the student if root is one student's folder.
    Links are entries that say so, never followed. Folders are listed level by level, a lab's first,
    so that a submission is found before a student's budget is spent on what lies elsewhere.
    """
    pending, looked_at = deque([above]), Counter()
    while pending:
        parts = pending.popleft()
        whose, everybodys = parts[:depth], len(parts) < depth
        if len(parts) == depth:
            yield _Entry((*parts, ""))
        try:
            with os.scandir(Path(root, *parts[len(above) :])) as inside:
                items = sorted(islice(inside, MAX_FILES), key=lambda item: item.name)
        except OSError as error:
            found.ignored.append((clean("/".join(parts)), f"cannot be listed: {error.strerror}"))
            continue
        for item in items:
            path = (*parts, item.name)
            if not _is_folder(item):
                yield _file_entry(path, item)
            elif item.name not in _SKIPPED:
                lab = _LAB.search(item.name) or item.name == "labs" or "phase" in item.name
                (pending.appendleft if lab and not everybodys else pending.append)(path)
        looked_at[whose] += 0 if everybodys else len(items)
        if looked_at[whose] > MAX_STUDENT_FILES:
            yield _Entry((*whose, ""), about=f"more than {MAX_STUDENT_FILES} files; {ALONE}")
            pending = deque(path for path in pending if path[:depth] != whose)


def _is_folder(item):
    return item.is_dir(follow_symlinks=False) and not _STARTER.fullmatch(item.name)


def _file_entry(path, item):
    status, when = item.stat(follow_symlinks=False), None
    with contextlib.suppress(ValueError, OverflowError):  # a year past 9999
        when = datetime.fromtimestamp(status.st_mtime, UTC)
    about = LINK if item.is_symlink() else ""
    return _Entry(path, partial(_read_file, item.path), status.st_size, when, about)


def _read_file(path, limit):
    """The bytes of a regular file of at most `limit` bytes; nothing else is read from."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if os.path.islink(path):
        raise Problem("a symbolic link; hand in the file itself")
    try:
        with open(path, "rb", opener=lambda path, _: os.open(path, flags)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Problem("a pipe, socket or device; hand in a regular file")
            _check_size(status.st_size, limit)
            return file.read(status.st_size)
    except IsADirectoryError:
        raise Problem("a folder of that name; hand in a file") from None
    except OSError as error:
        raise Problem(f"cannot be opened: {error.strerror}") from None


def _check_size(size, limit):
    if size > limit:
        raise Problem(f"a file of {size} bytes; the limit is {limit} bytes")


def _source(read, limit):
    """(source, "") or (None, why not) of what `read(limit)` gives."""
    try:
        source = read(limit)
        _check_text(source)
    except Problem as problem:
        return None, str(problem)
    return source, ""


def _check_text(source):
    """A Problem with bytes that Python would not take as a program."""
    if not source.strip():
        raise Problem("an empty file")
    if source[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Problem("saved as UTF-16; save it as UTF-8")
    if b"\0" in source:
        raise Problem("holds NUL bytes, so it is no Python text; save it as UTF-8")
    head = b"".join(source.splitlines(keepends=True)[:2])
    try:
        source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"coding" not in head:
            raise Problem(f"byte {error.start} is not UTF-8; save it as UTF-8") from None


# --- zip files ------------------------------------------------------------------------------------


def _zip_entries(opener, prefix, found):
    """The files of a zip file, and the folders of everybody's; BadZipFile if it is none.

    An inner one (with a prefix) is not held in memory: `opener` opens it again for each file read.
    """
    most = MAX_STUDENT_FILES if prefix else MAX_FILES
    file = opener()
    try:
        crowded = _listing_bytes(file) > 100 * most  # zipfile reads it all into memory
        archive = None if crowded else zipfile.ZipFile(file)
    except Exception:  # zipfile meets hostile bytes: whatever it raises is their doing
        raise zipfile.BadZipFile("not a zip file, though it is called one") from None
    if crowded or len(archive.infolist()) > most:
        if not prefix:
            raise Problem(f"more than {most} files in the zip file; is it the right one?")
        yield _Entry((*prefix, ""), about=f"more than {most} files in a zip file; {ALONE}")
        return
    if prefix:
        yield _Entry((*prefix, ""))
    where = clean("/".join(prefix)) or "the zip file"
    for member in {one.filename: one for one in archive.infolist()}.values():  # the last of a name
        name = member.filename.replace("\\", "/")
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if not parts or _SKIPPED & set(parts) or member.is_dir() and prefix:
            continue
        if name.startswith("/") or ".." in parts or re.fullmatch("[A-Za-z]:", parts[0]):
            why = "a path out of the zip file"
            found.ignored.append((clean(f"{where}: {member.filename}"), why))
        elif member.is_dir():
            yield _Entry((*parts, ""))
        else:
            read = partial(_read_member, None if prefix else archive, opener, member)
            when, about = _member_time(member), LINK * _is_link(member)
            yield _Entry(prefix + parts, read, member.file_size, when, about)


def _is_link(member):
    return stat.S_ISLNK(member.external_attr >> 16)


def _member_time(member):
    with contextlib.suppress(ValueError):
        return datetime(*member.date_time)


def _read_member(archive, opener, member, limit):
    if _is_link(member):
        raise Problem("a symbolic link in a zip file; hand in the file itself")
    _check_size(member.file_size, limit)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Problem("packed in a way that few programs read; pack it as an ordinary zip file")
    try:
        with (archive or zipfile.ZipFile(opener())).open(member) as file:
            return file.read(member.file_size)
    except Exception as error:  # as above
        raise Problem(f"cannot be read from its zip file: {clean(error)}") from None


def _listing_bytes(file):
    """How long the listing is by the end of the zip file; 0 if it says nothing.

    Asked of the function by which ZipFile itself finds it: a second reader could be misled.
    """
    end = zipfile._EndRecData(file)
    file.seek(0)
    return end[zipfile._ECD_SIZE] if end else 0


def _with_inner_zips(entries, found, depth):
    """A student's zip file stands for its files; a zip file inside that one does not."""
    spent = Counter()
    for entry in entries:
        if not entry.path[-1].lower().endswith(".zip"):
            yield entry
            continue
        prefix, whose = (*entry.path[:-1], entry.path[-1][: -len(".zip")]), entry.path[:depth]
        spent[whose] += entry.size
        if spent[whose] > MAX_STUDENT_BYTES:
            limit = MAX_STUDENT_BYTES >> 20
            why = f"zip files of more than {limit} MiB together; {ALONE}"
            yield _Entry((*prefix, ""), about=why)
            continue

        def opener(entry=entry):
            return BytesIO(entry.read(MAX_STUDENT_BYTES))

        try:
            for part in _worth_a_look(_zip_entries(opener, prefix, found), len(prefix)):
                nested = part.path[-1].lower().endswith(".zip")
                yield replace(part, when=entry.when, about=NESTED if nested else part.about)
        except (zipfile.BadZipFile, Problem) as problem:
            found.ignored.append((clean("/".join(entry.path)), str(problem)))
            yield replace(entry, about=f", {problem}")


# --- whose is it ----------------------------------------------------------------------------------


def _without_wrapper(entries, found, name):
    """(without a folder around everybody's and what lies beside it, that folder's name if any)

    What lies beside the only folder at the top is nobody's, also if this is the only student's.
    """
    kept = [entry for entry in entries if not _stray(entry.path[0], len(entry.path) > 1)]
    tops = {entry.path[0] for entry in kept}
    # Of a platform's folder the files beside it are other students', though no starters.
    alone = len(tops) == 1 and all(len(entry.path) > 1 for entry in kept)
    if not alone or _of_a_platform(top := min(tops)):
        return entries, ()
    beside = {
        entry.path[0]
        for entry in entries
        if entry.path[0] != top
        and entry.path not in _PLATFORMS_OWN
        and (not entry.path[0].startswith(".") or _may_matter(entry.path[-1]))
    }
    why = "neither a student's folder nor a starter.py"
    found.ignored += [(clean(name), why) for name in sorted(beside)]
    if not _is_wrapper(top, kept):
        return kept, ()
    return [replace(entry, path=entry.path[1:]) for entry in kept if entry.path[1]], (top,)


def _is_wrapper(top, entries):
    """Whether `top`, in which all of them lie, is no student's folder."""
    students = _students(entries, 1)
    if any(map(_of_a_platform, students or {entry.path[1] for entry in entries})):
        return True
    one_person = not _lab_of_groups(students) and any(
        _lab_in(name) or _STARTER.fullmatch(name) or name.startswith("phase-") for name in students
    )
    if top.endswith("-submissions") and one_person:  # hw1-submissions/hw1-jane, or jane-submissions
        folders = {entry.path[1] for entry in entries if len(entry.path) > 2}
        return any(name.startswith(top.removesuffix("submissions")) for name in folders)
    return bool(_WRAPPER.fullmatch(top)) or len(students) > 1 and not one_person


def _students(entries, level):
    """The names at this level of the paths of starters."""
    return {entry.path[level] for entry in entries if _STARTER.fullmatch(entry.path[-1])}


def _lab_of_groups(names):
    """The lab that all say, as `Lab 1 Group A` and B do; not a lab's folder and its own copies."""
    labs = {_lab_in(name) for name in names}
    copies = os.path.commonprefix(sorted(names)) in names
    return labs.pop() if len(labs) == 1 and not copies else None


def _of_a_platform(name):
    return any(re.fullmatch(pattern, name) for pattern in _PLATFORMS.values())


def _patterns(entries, around):
    """What each platform calls a student's file or folder in this export, and plain, anything."""
    blackboard = _PLATFORMS["Blackboard"]
    names = [re.fullmatch(blackboard, entry.path[0]) for entry in entries]
    names = [match["name"] for match in names if match]
    # `Lab 01_`, with which all of Blackboard's names begin; what follows is a user's name.
    task = "".join(os.path.commonprefix(names).rpartition("_")[:2])
    patterns = _PLATFORMS | {"Blackboard": f"(?P<task>{re.escape(task)}){blackboard}"}
    for folder in around:
        if folder.endswith("-submissions"):
            assignment = re.escape(folder.removesuffix("submissions"))
            patterns["GitHub Classroom"] = f"{assignment}(?P<name>.+)"
    return {shape: re.compile(text) for shape, text in (patterns | {"plain": _PLAIN}).items()}


def _gradescope_groups(entries):
    """submission_12 -> (its members, when), as submission_metadata.yml says."""
    groups, text = {}, ""
    with contextlib.suppress(
        Problem, StopIteration
    ):  # a student's own, further below, says nothing
        metadata = next(entry for entry in entries if entry.path == _METADATA)
        text = metadata.read(16 << 20).decode("utf-8", "replace")
    for number, about in re.findall(r"(?ms)^submission_(\d+):(.*?)(?=^\S|\Z)", text):
        # Deeper than two spaces stand a student's words too, such as what a test said.
        people = re.search(r"(?ms)^  :submitters:\s*$(.*?)(?=^  :|\Z)", about)
        when = re.search(r"(?m)^  :created_at:(.+)", about)
        members = []
        for one in re.split(r"(?m)^  - ", people[1] if people else "")[1:]:
            said = re.findall(r"(?m)^ *:(name|sid|email):(.+)", one)
            said = {name: value for name, text in said if (value := _yaml_text(text))}
            if "name" in said:
                members.append((_student(said["name"], number), tuple(said.values())))
        if members:
            groups[f"submission_{number}"] = members, _time(when[1]) if when else None
    return groups


def _yaml_text(text):
    """What a YAML scalar of one line says: 'Pat O''Brien' is Pat O'Brien."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        with contextlib.suppress(ValueError):
            return json.loads(re.sub(r"\\x(..)", r"\\u00\1", text))
        return text[1:-1]
    return text


def _owner(path, patterns, groups) -> _Owner:
    first, rest = path[0], path[1:]
    matches = ((shape, pattern.fullmatch(first)) for shape, pattern in patterns.items())
    shape, match = next(pair for pair in matches if pair[1])
    said = match.groupdict("")
    name, number = said["name"] or "student", said.get("user", "")
    rest = rest or (said.get("file") or first,)
    if task := said.get("task"):  # which may name the lab
        rest = (task, *rest)
    # Moodle's number is one of the assignment's own, so it is nobody's elsewhere.
    clues = name, f"Participant {number}" if shape == "Moodle" else number
    alone = [(_student(name, number), clues)], _time(said.get("time", ""))
    members, when = groups.get(first, alone)
    return _Owner(shape, members, rest, when, bool(said.get("late")))


def _student(name, number=""):
    """A printable name that no other student has, even one who differs in invisible letters."""
    name = _nfc(name)
    shown = clean(name, 80) + (f" ({number})" if number else "")
    if shown == name or number:
        return shown
    return f"{shown} #{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"


def _nfc(text):
    return unicodedata.normalize("NFC", text)


def _lab_of(match, rest, only):
    if match["lab"]:
        return f"lab-{match['lab']}" if match["lab"].isdigit() else match["lab"].lower()
    return next(filter(None, map(_lab_in, reversed(rest))), only)


def _lab_in(text):
    """The lab that a name says, such as lab-01 or capstone, or None."""
    match = _LAB.search(text)
    return match and (f"lab-{int(match[1]):02d}" if match[1] else "capstone")
