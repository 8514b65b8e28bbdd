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
from io import BytesIO
from itertools import islice
from pathlib import Path

from grading.problem import Problem
from grading.sanitise import clean

MAX_FILES = 300_000  # in a folder or zip file of everybody's
MAX_STUDENT_FILES = 100_000  # looked at in one student's folder, or in one zip file of theirs
MAX_STUDENT_BYTES = 128 << 20  # of zip files, for one student
MAX_DEPTH = 16
ALONE = "hand in the starter alone"
LINK = ", a link, which is not followed: hand in the files themselves"

_SKIPPED = {".git", "__MACOSX", "__pycache__", "node_modules", ".venv", "venv", ".pytest_cache"}
_SKIPPED |= {"site-packages", "dist-packages", ".tox", ".ipynb_checkpoints", ".mypy_cache"}
# What each calls a student's file or folder: its own part first, for a student names the rest.
_PLATFORMS = {
    "Canvas": r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<user>\d+)_\d+_(?P<file>.+)",
    "Moodle": r"(?P<name>.+?)_(?P<user>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)",
    "Blackboard": r"(?P<name>.+?)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+)|\.txt)",
    "Brightspace": r"(?P<user>\d+)-\d+ - (?P<name>.+?) - "
    r"(?P<time>\w+ \w+,? \d{4} \d{1,2}:?\d\d ?[AP]M)",
    "Gradescope": r"submission_\d+",
}
_PLATFORMS = {shape: re.compile(pattern) for shape, pattern in _PLATFORMS.items()}
_PLATFORMS_OWN = ("submission_metadata.yml",), ("index.html",)
_TIMES = "%Y-%m-%d-%H-%M-%S", "%b %d %Y %I%M %p", "%B %d %Y %I%M %p", "%d %B %Y %I%M %p"
_WRAPPER = re.compile(r"(?i)(assignment_\d+_export|.*-submissions|submissions?)")
_STARTER = re.compile(
    r"(?i)(?:.*[-_ ])?starter(?:[-_ ]?(?P<lab>\d\d|capstone))?"
    r"(?:[-_ ]?\(?(?P<version>\d{1,3})\)?)?\.py"
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
    too_much: list[tuple[tuple, str]] = field(default_factory=list)  # (path, which budget is spent)
    folders: list[tuple] = field(default_factory=list)  # a student's each, be they empty


@dataclass(frozen=True)
class _Entry:
    """A file, not yet read. `read(limit)` gives (bytes, "") or (None, why not)."""

    path: tuple[str, ...]
    read: object
    size: int
    when: datetime | None = None  # its own time
    about: str = ""  # such as that it is a link


@dataclass(frozen=True)
class _Owner:
    """Whose a file is, as the export tells it."""

    shape: str
    student: str
    rest: tuple[str, ...]  # the path within the student's own files
    clues: tuple = ()
    when: datetime | None = None
    late: bool = False
    members: tuple = ()  # of a group, (name, clues) of each; the first is `student`


@dataclass
class _Student:
    """What is known of a student while their files are looked at."""

    owner: _Owner
    gets_row: bool = False  # else it may be a stray file
    has_one: bool = False  # a starter of a lab that is graded
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
    entries, owner_of = _arranged(place, found, student)
    around = (place.resolve().name,) if student else ()  # may itself say which lab is in it
    reading = _Reading(found, labs, only, owner_of, around)
    for path in found.folders:
        reading.student_of(owner_of((*path, ""))).gets_row = True
    for entry in entries:
        if entry.path not in _PLATFORMS_OWN:
            reading.look_at(entry)
    reading.choose(max_bytes, deadline)
    reading.tell_of_too_much()
    reading.tell_who_has_none()
    return found


def _arranged(place, found, student):
    """(every file without what an export lays around them, a function from a path to its owner)"""
    try:
        entries = list(_walk(place, found, (student,))) if student else _entries(place, found)
    except OSError as error:
        raise Problem(f"{place} cannot be read: {error.strerror}") from None
    if len(entries) > MAX_FILES:
        raise Problem(f"more than {MAX_FILES} files; is this the right folder?")
    outside = _without_strays(entries, found)
    entries = outside if student else _without_wrapper(outside)
    dropped = len(outside[0].path) - len(entries[0].path) if entries else 0
    found.too_much = [(path[dropped:], why) for path, why in found.too_much]
    found.folders = [path[dropped:] for path in found.folders]
    groups, classroom = _gradescope_groups(entries), _classroom_prefix(entries, place.name)
    task = _blackboard_task(entries)

    def owner_of(path):
        return _owner(path, groups, classroom, task)

    entries = _open_inner_zips(entries, found, owner_of)
    classroom = _classroom_prefix(entries, place.name)  # a zip file may hold what tells it
    return entries, owner_of


class _Reading:
    """Who has what, from the first file to the sentence for those who have nothing."""

    def __init__(self, found, labs, only, owner_of, around):
        self.found, self.labs, self.only = found, labs, only
        self.owner_of, self.around = owner_of, around
        self.students = {}  # name -> _Student
        self.candidates = {}  # (name, lab) -> [(rank, owner, where, entry)]

    def student_of(self, owner):
        return self.students.setdefault(owner.student, _Student(owner))

    def look_at(self, entry):
        owner = self.owner_of(entry.path)
        student, rest = self.student_of(owner), owner.rest
        student.gets_row |= owner.shape != "plain" or len(entry.path) > 1 or bool(entry.about)
        match = _STARTER.fullmatch(rest[-1])
        if not match:
            if entry.about or len(rest) <= 2 and not rest[-1].startswith("."):
                student.other = student.other or clean("/".join(rest), 100) + entry.about
            return
        where = clean("/".join(entry.path), 300)
        lab, why = _lab_of(match, rest, self.only), ""
        if any(part.startswith(".") and part != "." for part in rest[:-1]):
            self.found.ignored.append((where, "in a hidden folder; move it out of there"))
            return
        if lab is None and owner.shape == "plain" and _LAB.match(owner.student):
            why = f"{owner.student} was taken for the student's name: give the folder above"
            student.gets_row = False
        elif lab is None:
            why = "which lab? Name it starter-01.py, put it in a folder lab-01, or use --lab 01"
        elif lab not in self.labs:
            why = f"{lab} is not one of {', '.join(sorted(self.labs))}"
        if why:
            self.found.ignored.append((where, why))
            student.told = why
        elif self.only in (None, lab):
            student.has_one = True
            candidate = self._rank(match, lab, owner), owner, where, entry
            self.candidates.setdefault((owner.student, lab), []).append(candidate)

    def _rank(self, match, lab, owner):
        """The first counts: the last attempt, one that names the lab, the highest number."""
        rest, version = owner.rest, int(match["version"] or 0)
        names_it = _lab_of(match, (*self.around, *rest), None) == lab  # not only --lab does
        return -_seconds(owner.when), not names_it, -version, "labs" not in rest, len(rest), rest

    def choose(self, max_bytes, deadline):
        """Read the one that counts of each student and lab."""
        for (student, lab), several in sorted(self.candidates.items()):
            several.sort(key=lambda candidate: candidate[0])
            _, owner, where, entry = several[0]
            for _, _, other, its in several[1:]:
                self.found.older.append((other, f"{where} is graded instead"))
                if _nfc(its.path[0]) == _nfc(entry.path[0]) and its.path[0] != entry.path[0]:
                    why = f"{other} and {where} differ in how their letters are encoded: are they"
                    self.found.twins.append((student, f"{why} two people's? Only one is graded"))
            source, problem = entry.read(max_bytes)
            if not problem:
                source, problem = _text_or_problem(source)
            late = _late(owner, entry, deadline)
            one = Submission(student, lab, where, source, problem, owner.clues, late)
            self.found.submissions += _each_member(one, owner)
            self.found.shapes[owner.shape] += 1

    def tell_of_too_much(self):
        for path, why in self.found.too_much:
            owner, where = self.owner_of((*path, "")), clean("/".join(path), 300)
            student = self.student_of(owner)
            lab = self.only or _lab_in("/".join(owner.rest))
            student.told = why
            if student.has_one:
                why = why.replace(ALONE, "the rest was not looked at")
            elif lab in self.labs and (owner.student, lab) not in self.candidates:
                self.candidates[owner.student, lab] = []
                one = Submission(owner.student, lab, where, None, why, owner.clues)
                self.found.submissions.append(one)
                self.found.shapes[owner.shape] += 1
            self.found.ignored.append((where, why))

    def tell_who_has_none(self):
        labs = {self.only} if self.only else {one.lab for one in self.found.submissions}
        given = {name for name, _ in self.candidates}
        given |= {one.student for one in self.found.submissions}
        without = []
        for name, student in sorted(self.students.items(), key=lambda pair: pair[0] or ""):
            if student.has_one or name in given:
                continue
            number = self.only.removeprefix("lab-") if self.only else "NN"
            why = f"no starter.py or starter-{number}.py"
            why += f" for {self.only}" if self.only else ""
            why += f"; there is {student.other}" if student.other else " in it"
            why = student.told or why
            for lab in sorted(labs) if student.gets_row else ():
                one = Submission(name, lab, clean(name), None, why, student.owner.clues)
                self.found.unrecognised += _each_member(one, student.owner)
            if name and not student.told:
                without.append((name, why))
        self.found.ignored[:0] = without  # first: they get no points at all


def _each_member(submission, owner):
    """The submission once for each of its group."""
    members = owner.members or ((submission.student, submission.clues),)
    return [replace(submission, student=name, clues=clues) for name, clues in members]


def _late(owner, entry, deadline):
    """What is said of a late hand-in: what the platform says, or its time after the deadline."""
    if deadline is not None and (when := owner.when or entry.when) is not None:
        if owner.shape == "GitHub Classroom":
            return ""  # a clone's files are as old as the clone
        after = _seconds(when, deadline.tzinfo) - _seconds(deadline)
        if after <= 0:
            return ""
        by = owner.shape if owner.when else "its file's time"
        amount = f"{after / 60:.0f} min" if after < 7200 else f"{after / 3600:.0f} h"
        amount = amount if after < 172_800 else f"{after / 86_400:.0f} days"
        return f"{amount} after the deadline ({by})"
    return "late (Canvas)" if owner.late else ""


def _seconds(when, zone=None):
    if when is None:
        return 0
    return (when.replace(tzinfo=zone) if when.tzinfo is None else when).timestamp()


def _time(text):
    """A time as one of the platforms writes it, or None."""
    text = " ".join(re.sub(r"[,:]", " ", text).split())
    text = re.sub(r"(?<= )(\d{1,2}) (\d\d) ?(?=[AP]M)", r"\1\2 ", text)
    text = re.sub(r"\b(\d{3}) (?=[AP]M)", r"0\1 ", text)
    for form in _TIMES:
        with contextlib.suppress(ValueError):
            when = datetime.strptime(text, form)
            return when if when.year > 1970 else None  # which no clock can tell in seconds
    return None


def read_one(path, max_bytes=4 << 20) -> tuple[bytes | None, str]:
    """(source, "") or (None, why not) of a single file."""
    source, problem = _read_file(path, max_bytes)
    return (None, problem) if problem else _text_or_problem(source)


# --- files ----------------------------------------------------------------------------------------


def _entries(place, found):
    if place.is_dir():
        return list(_walk(place, found))
    if not place.is_file():
        raise Problem(f"{place} does not exist")
    with open(place, "rb"):  # below, what cannot be opened is no zip file
        entries = _zip_entries(lambda: open(place, "rb"), (), found)
    if entries is None:
        raise Problem(f"{place} is neither a folder nor a zip file")
    return entries


def _walk(root, found, above=()):
    """The files below root that may be submissions, and of every folder one that says whose it is.

    Their paths begin with `above`, which names the student if root is one student's folder.
    Links are entries that say so, never followed. Folders are listed level by level, a lab's first,
    so that a submission is found before a student's budget is spent on what lies elsewhere.
    """
    pending, looked_at = deque([above]), Counter()
    with os.scandir(root) as top:
        theirs = (item for item in top if not _stray(item.name, item.is_dir(follow_symlinks=False)))
        depth = 1  # where a path names the student; below, if one folder is around everybody's
        depth += not above and sum(1 for _ in islice(theirs, 2)) == 1
    while pending:
        parts = pending.popleft()
        whose, everybodys = parts[:depth], len(parts) < depth
        if len(parts) == depth:
            found.folders.append(parts)
        elif looked_at[whose] > MAX_STUDENT_FILES:
            continue
        try:
            with os.scandir(Path(root, *parts[len(above) :])) as inside:
                items = list(islice(inside, MAX_FILES if everybodys else MAX_STUDENT_FILES + 1))
        except OSError as error:
            found.ignored.append((clean("/".join(parts)), f"cannot be listed: {error.strerror}"))
            continue
        items.sort(key=lambda item: item.name)
        folders = [item.name for item in items if _is_folder(item)]
        files = [item for item in items if not _is_folder(item)]
        others = [item for item in files if not (everybodys or _may_matter(item.name))]
        kept = 1 if len(parts) <= depth + 1 else 0  # to say what else is there
        for item in files:
            if item not in others[kept:]:
                yield _file_entry((*parts, item.name), item)
        if not everybodys:
            looked_at[whose] += len(items)
            if looked_at[whose] > MAX_STUDENT_FILES:
                found.too_much.append((whose, f"more than {MAX_STUDENT_FILES} files; {ALONE}"))
                continue
        for name in folders:
            path = (*parts, name)
            if name not in _SKIPPED and len(path) >= MAX_DEPTH:
                found.ignored.append((clean("/".join(path)), "folders nested too deep"))
            elif name not in _SKIPPED:
                first = not everybodys and (_LAB.search(name) or name == "labs" or "phase" in name)
                (pending.appendleft if first else pending.append)(path)


def _is_folder(item):
    return item.is_dir(follow_symlinks=False) and not _STARTER.fullmatch(item.name)


def _file_entry(path, item):
    status = item.stat(follow_symlinks=False)
    full, when = item.path, None
    with contextlib.suppress(ValueError, OverflowError):  # a year past 9999
        when = datetime.fromtimestamp(status.st_mtime, UTC)
    about = LINK if item.is_symlink() else ""
    return _Entry(path, lambda limit: _read_file(full, limit), status.st_size, when, about)


def _may_matter(name):
    metadata = name == "submission_metadata.yml"
    return metadata or name.lower().endswith(".zip") or bool(_STARTER.fullmatch(name))


def _read_file(path, limit):
    """The bytes of a regular file of at most `limit` bytes; nothing else is read from."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if os.path.islink(path):
            return None, "a symbolic link; hand in the file itself"
        return None, f"cannot be opened: {error.strerror}"
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            return None, "a folder of that name; hand in a file"
        if not stat.S_ISREG(status.st_mode):
            return None, "a pipe, socket or device; hand in a regular file"
        if status.st_size > limit:
            return None, f"a file of {status.st_size} bytes; the limit is {limit} bytes"
        data = b""
        while len(data) <= limit and (chunk := os.read(descriptor, 1 << 20)):
            data += chunk
        return (data, "") if len(data) <= limit else (None, f"a file of more than {limit} bytes")
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    finally:
        os.close(descriptor)


def _text_or_problem(source):
    """(source, "") for bytes that Python would take as a program; (None, why) for others."""
    if not source.strip():
        return None, "an empty file"
    if source[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return None, "saved as UTF-16; save it as UTF-8"
    if b"\0" in source:
        return None, "holds NUL bytes, so it is no Python text; save it as UTF-8"
    head = b"".join(source.splitlines(keepends=True)[:2])
    try:
        source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"coding" not in head:
            return None, f"byte {error.start} is not UTF-8; save it as UTF-8"
    return source, ""


# --- zip files ------------------------------------------------------------------------------------


def _zip_entries(opener, prefix, found):
    """Entries of a zip file, or None if it is none.

    An inner one (with a prefix) is not held in memory: `opener` opens it again for each file read.
    """
    where = clean("/".join(prefix)) or "the zip file"
    most = MAX_STUDENT_FILES if prefix else MAX_FILES
    try:
        file = opener()
        crowded = _listing_bytes(file) > 100 * most  # zipfile reads it all into memory
        archive = None if crowded else zipfile.ZipFile(file)
        members = [] if crowded else archive.infolist()
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, EOFError):
        return None
    except Exception as error:  # zipfile meets hostile bytes: whatever it raises is their doing
        found.ignored.append((where, f"a zip file that cannot be read: {clean(error)}"))
        return []
    if crowded or len(members) > most:
        if not prefix:
            raise Problem(f"more than {most} files in the zip file; is it the right one?")
        found.too_much.append((prefix, f"more than {most} files in a zip file; {ALONE}"))
        return []
    entries, told = [], set()
    for member in members:
        name = member.filename
        parts = tuple(part for part in name.replace("\\", "/").split("/") if part)
        if not parts or member.is_dir() or _SKIPPED & set(parts):
            continue
        outside = name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]
        if outside or len(parts) > MAX_DEPTH:
            found.ignored.append((clean(f"{where}: {name}"), "a path out of the zip file"))
            continue
        if not _may_matter(parts[-1]) and (prefix or len(parts) > 2):
            if (folder := () if prefix else parts[:2]) in told:
                continue  # one entry says whose it is; the others need not be kept
            told.add(folder)

        def read(limit, member=member, archive=None if prefix else archive):
            return _read_member(archive, member, limit, opener)

        when = None if prefix else _member_time(member)  # its student may have set an inner one
        about = LINK if stat.S_ISLNK(member.external_attr >> 16) else ""
        entries.append(_Entry(prefix + parts, read, member.file_size, when, about))
    return entries


def _member_time(member):
    with contextlib.suppress(ValueError):
        return datetime(*member.date_time)


def _read_member(archive, member, limit, opener):
    if stat.S_ISLNK(member.external_attr >> 16):
        return None, "a symbolic link in a zip file; hand in the file itself"
    if member.file_size > limit:
        return None, f"a file of {member.file_size} bytes; the limit is {limit} bytes"
    try:
        with (archive or zipfile.ZipFile(opener())).open(member) as file:
            data = file.read(limit + 1)
    except Exception as error:  # as above
        return None, f"cannot be read from its zip file: {clean(error)}"
    return (data, "") if len(data) <= limit else (None, f"a file of more than {limit} bytes")


def _listing_bytes(file):
    """What the end of a zip file says of the length of its listing; 0 if it says nothing."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - 70_000))
    tail = file.read()
    file.seek(0)
    short, long = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    if long >= 0:
        return int.from_bytes(tail[long + 40 : long + 48], "little")
    return int.from_bytes(tail[short + 12 : short + 16], "little") if short >= 0 else 0


def _open_inner_zips(entries, found, owner_of):
    """A student's zip file stands for its files; a zip file inside that one does not."""
    opened, spent = [], Counter()
    for entry in entries:
        if not entry.path[-1].lower().endswith(".zip"):
            opened.append(entry)
            continue
        prefix = (*entry.path[:-1], entry.path[-1][: -len(".zip")])
        student = owner_of((*prefix, "")).student
        spent[student] += entry.size
        if spent[student] > MAX_STUDENT_BYTES:
            limit = MAX_STUDENT_BYTES >> 20
            why = f"zip files of more than {limit} MiB together; {ALONE}"
            found.too_much.append((prefix, why))
            continue

        def opener(entry=entry):
            return BytesIO(entry.read(MAX_STUDENT_BYTES)[0] or b"")

        inner = _zip_entries(opener, prefix, found)
        if inner is None:
            why = entry.read(MAX_STUDENT_BYTES)[1] or "not a zip file, though it is called one"
            found.ignored.append((clean("/".join(entry.path)), why))
            opened.append(replace(entry, about=f", {why}"))
        for part in inner or ():
            nested = part.path[-1].lower().endswith(".zip")
            about = ", a zip file in a zip file, which is not opened: hand in the starter alone"
            opened.append(replace(part, when=entry.when, about=about if nested else part.about))
    return opened


# --- whose is it ----------------------------------------------------------------------------------


def _stray(name, folder):
    """Whether something at the top, such as .DS_Store or roster.csv, is nobody's hand-in."""
    return name in _SKIPPED or name.startswith(".") if folder else not _may_matter(name)


def _without_strays(entries, found):
    """Without what lies beside a single folder, which may be around everybody's."""
    kept = [entry for entry in entries if not _stray(entry.path[0], len(entry.path) > 1)]
    tops = {entry.path[0] for entry in kept}
    tops |= {path[0] for path in found.folders if not _stray(path[0], True)}  # be they empty
    if len(tops) != 1 or any(len(entry.path) < 2 for entry in kept):
        return entries
    found.folders = [path for path in found.folders if path[0] in tops]
    found.too_much = [(path, why) for path, why in found.too_much if path[0] in tops]
    beside = {
        entry.path[0]
        for entry in entries
        if entry.path[0] not in tops
        and entry.path not in _PLATFORMS_OWN
        and (not entry.path[0].startswith(".") or _may_matter(entry.path[-1]))
    }
    why = "neither a student's folder nor a starter.py"
    found.ignored += [(clean(name), why) for name in sorted(beside)]
    return kept


def _without_wrapper(entries):
    """Drop one outer folder that an export adds around the students'."""
    tops = {entry.path[0] for entry in entries}
    if len(tops) != 1 or any(len(entry.path) < 2 for entry in entries):
        return entries
    top = next(iter(tops))
    if any(pattern.fullmatch(top) for pattern in _PLATFORMS.values()):
        return entries  # the only student
    inner = {entry.path[1] for entry in entries}
    known = any(pattern.fullmatch(part) for part in inner for pattern in _PLATFORMS.values())
    own = {entry.path[1] for entry in entries if _STARTER.fullmatch(entry.path[-1])}
    one_person = any(
        _LAB.search(part) or _STARTER.fullmatch(part) or "phase" in part for part in own
    )
    if not known and not _WRAPPER.fullmatch(top) and (one_person or len(own) < 2):
        return entries
    if _names_assignment(top, entries) or top.endswith("-submissions") and one_person:
        return entries  # the name is needed below, or is a student's
    return [replace(entry, path=entry.path[1:]) for entry in entries]


def _classroom_prefix(entries, name):
    """`hw1-` for `hw1-submissions/hw1-jane/...`, else ''.

    Only the one folder around all the others names the assignment; `jane-submissions` is a student.
    """
    tops = {entry.path[0] for entry in entries}
    around = [top for top in tops if len(tops) == 1 and _names_assignment(top, entries)]
    for folder in (name, *around):
        if folder.endswith("-submissions"):
            return folder[: -len("submissions")]
    return ""


def _names_assignment(top, entries):
    """Whether `top` is `hw1-submissions` and something in it begins with `hw1-`."""
    return top.endswith("-submissions") and any(
        entry.path[1].startswith(top[: -len("submissions")])
        for entry in entries
        if len(entry.path) > 2
    )


def _blackboard_task(entries):
    """`Lab 01_`, with which all of Blackboard's names begin; what follows is a user's name."""
    names = [_PLATFORMS["Blackboard"].fullmatch(entry.path[0]) for entry in entries]
    names = {match["name"] for match in names if match}
    if len(names) < 2:
        return "".join(names).rpartition("_")[0] + "_"
    return os.path.commonprefix([*names]).rpartition("_")[0] + "_"


@dataclass
class _Group:
    """Who handed in one Gradescope submission: (name, clues) of each, and when."""

    members: list = field(default_factory=list)
    when: datetime | None = None


def _gradescope_groups(entries):
    """submission_12 -> its group, from the lines of submission_metadata.yml that say so."""
    groups, group, number, people = {}, _Group(), "", False
    own = [entry for entry in entries if entry.path == ("submission_metadata.yml",)]
    data = own[0].read(16 << 20)[0] if own else None  # a student's own says nothing
    for line in (data or b"").decode("utf-8", "replace").split("\n"):
        if match := re.match(r"submission_(\d+):", line):
            number = match[1]
            group = groups.setdefault(f"submission_{number}", _Group())
        if re.match(r"  :", line):  # deeper stand a student's words too, such as what a test said
            people = line.strip() == ":submitters:"
        match = re.match(r"( +(?:- )?):(name|sid|email|created_at):(.+)", line)
        if not match or not (value := _yaml_text(match[3])):
            continue
        if match[2] == "created_at":
            if match[1] == "  " and group.when is None:
                with contextlib.suppress(ValueError):
                    value = re.sub(r"\.\d+| (?=[-+Z])", "", value)
                    group.when = datetime.strptime(value, "%Y-%m-%d %H:%M:%S%z")
        elif people and match[2] == "name":
            group.members.append((_student(value, number), (value,)))
        elif people and group.members:
            name, clues = group.members[-1]
            group.members[-1] = name, (*clues, value)
    return {submission: group for submission, group in groups.items() if group.members}


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


def _owner(path, groups, classroom, task) -> _Owner:
    first, rest = path[0], path[1:]
    for shape, pattern in _PLATFORMS.items():
        if not (match := pattern.fullmatch(first)):
            continue
        said = match.groupdict()
        if shape == "Gradescope":
            group = groups.get(first, _Group([(_student(first), ())]))
            name, clues = group.members[0]
            members = tuple(group.members)
            return _Owner(shape, name, rest or (first,), clues, group.when, members=members)
        inner = rest or (said.get("file") or first,)
        name, when = said["name"], _time(said.get("time", ""))
        if shape == "Blackboard":
            name, inner = name.removeprefix(task), (task, *inner)  # which may name the lab
        # Moodle's number is one of the assignment's own, so it is nobody's elsewhere.
        own = said.get("user", "") if shape != "Moodle" else f"Participant {said['user']}"
        student = _student(name, said.get("user", ""))
        return _Owner(shape, student, inner, (name, own), when, bool(said.get("late")))
    if classroom and first == f"{classroom}submissions" and len(rest) > 1:
        first, rest = rest[0], rest[1:]
    if classroom and first.startswith(classroom):
        name = first[len(classroom) :]
        return _Owner("GitHub Classroom", _student(name), rest or (first,), (name,))
    name = first
    if not rest:  # a file beside the students' folders: jane-starter-01.py
        name = re.sub(r"(?i)[-_ ]?starter.*\.py$", "", first) or "student"
    return _Owner("plain", _student(name), rest or (first,), (name,))


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
