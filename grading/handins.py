"""Find the hand-ins in a folder or zip file as a platform exported it; nothing is unpacked.

One regular expression for each platform says whose a file is; `--pattern` adds another. What none
of them explains is told, never guessed. Links are not followed, and archives have budgets.
"""

import ast
import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from io import BytesIO
from pathlib import Path

from grading.text import Problem, clean
from labkit.loading import Lab
from labkit.starters import is_edited

# Groups: name and number (whose), late, attempt and time (which of several), file (theirs).
# A path is matched below the folder that is around everybody's. The platform's own words come
# first, so that what a student calls a file or a folder says nobody else's name.
PATTERNS = {
    # doejane_LATE_12_345_starter-01.py: name, Canvas' id, the file's number, which grows
    "Canvas": r"(?P<name>[^/]+?)_(?P<late>LATE_)?(?P<number>\d+)_"
    r"(?:(?P<attempt>\d+)_(?P<file>[^/]+)|(?:text|link)\.html)",
    # Jane Doe_77_assignsubmission_file_/starter-01.py: 77 is the assignment's own number
    "Moodle": r"(?P<name>[^/]+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)"
    r"(?:_?/|_)(?P<file>.+)",
    # submission_12/starter.py, and submission_metadata.yml, which says whose it is
    "Gradescope": r"(?P<name>submission_\d+)/(?P<file>.+)",
    # Lab 01_jdoe_attempt_2026-11-01-23-59-00_starter.py: after the task the user's name
    "Blackboard": r"(?P<name>[^/]+?)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>[^/]+)|\.txt)",
    # 12-34 - Jane Doe - Nov 1, 2026 1159 PM/starter.py
    "Brightspace": r"(?P<number>\d+)-\d+ - (?P<name>[^/]+?) - "
    r"(?P<time>\w+ \w+,? \d{4} \d{1,2}:?\d\d ?[AP]M)/(?P<file>.+)",
    # labs-submissions/labs-jdoe/phase-10-.../labs/lab-01-.../starter.py: a clone per student, also
    # below Classroom 50's hw-01_submissions_2026_11_30_T_12_00_00/
    "clone": r"(?P<task>[^/]+)[-_]submissions(?:_\d[^/]*)?/(?P=task)-(?P<name>[^/]+)/(?P<file>.+)",
    # Jane Doe/lab-01-.../starter.py, Jane Doe/starter-01.py
    "plain": r"(?!\.|(?i:lab[-_ ]?\d+[-/]|capstone/|phase-))(?P<name>[^/]+)/(?P<file>.+)",
    # jane-starter-01.py
    "file": r"(?P<name>[^/.][^/]*?)[-_ ]?(?P<file>starter[^/]*\.py)",
}
STARTER = re.compile(
    r"(?i)(?!\.)(?:.*[-_ ])?starter(?:[-_ ]?(?P<lab>\d\d|capstone))?"
    r"(?:(?: -)? copy)?(?:[-_ ]?\(?(?P<copy>\d{1,3})\)?)?\.py"
)
LAB = re.compile(
    r"(?i)(?:^|[^a-z0-9])(?:(?:lab[-_ ]?0?(?=\d)|starter[-_ ]?(?=\d\d))(\d{1,2})(?!\d)"
    r"|(capstone)(?![a-z]))"
)
SKIPPED = {".git", "__MACOSX", "__pycache__", "node_modules", ".venv", "venv", ".pytest_cache"}
SKIPPED |= {"site-packages", "dist-packages", ".ipynb_checkpoints"}
TIMES = "%Y-%m-%d-%H-%M-%S", "%b %d %Y %I:%M %p", "%B %d %Y %I:%M %p", "%d %B %Y %I:%M %p"
MOST_BYTES = 4 << 20  # of one file that is graded
MOST_STUDENT_BYTES = 128 << 20  # of all that is read of one student
MOST_LISTING_BYTES = 2 << 20  # of the lists of files in a student's archives: some 20,000 names
DEEPEST = 60  # folders in folders
LINK = ", a link, which is not followed"
ALONE = "hand in the starter alone"


@dataclass(frozen=True)
class File:
    """A file of the export, not yet read. `about` says why it cannot be, as that it is a link."""

    path: str
    size: int = 0
    read: Callable[[], bytes] | None = None
    about: str = ""


@dataclass
class HandIn:
    """One student's file for one lab. `problem` says why there is no `source`."""

    student: str  # as the export calls them; the roster may know better
    lab: str  # its prefix, lab-01
    where: str
    shape: str = ""
    source: bytes | None = None
    problem: str = ""
    clues: tuple[str, ...] = ()  # what the export says of who this is
    late: str = ""  # the platform's own mark
    when: datetime | None = None  # by the platform; a file's own time is whoever's copied it
    notes: list[str] = field(default_factory=list)


@dataclass
class Found:
    handins: list[HandIn] = field(default_factory=list)
    ignored: list[tuple[str, str]] = field(default_factory=list)  # (where, why): look at them


@dataclass
class _Student:
    """What lies in a student's part of the export."""

    shape: str
    where: str  # a path of theirs
    members: list[tuple[str, tuple[str, ...]]]  # of a group, or the one: (name, clues)
    when: datetime | None = None
    starters: dict[str, list] = field(default_factory=dict)  # lab -> [(rank, HandIn)]
    programs: list = field(default_factory=list)  # other .py files: [(name, HandIn)], two at most
    there: list[str] = field(default_factory=list)
    told: tuple[str, str] | tuple[()] = ()  # (where, why): what is not graded
    bytes: int = 0
    listing_bytes: int = 0


def collect(place, labs: dict[str, Lab], only=None, pattern=None, student=None) -> Found:
    """Everybody's hand-ins for `labs` (by prefix) under `place`; `only` names a single lab.

    pattern: one more regular expression, which comes before PATTERNS. student: all of `place` is
    this student's. Who handed in nothing that is recognised has a hand-in that says what is there.
    """
    reading = _Reading(Path(place), labs, only, pattern, student)
    for file in reading.files:
        reading.look_at(file)
    reading.settle()
    if student and only and not reading.found.handins:
        nothing = HandIn(student, only, "", "plain", None, "nothing was handed in", (student,))
        reading.found.handins.append(nothing)
    return reading.found


class _Reading:
    def __init__(self, place, labs, only, pattern, student):
        self.labs, self.only, self.student = labs, only, student
        self.found, self.students = Found(), {}
        own = {"--pattern": _compiled(pattern)} if pattern else {}
        self.patterns = own | {name: re.compile(text) for name, text in PATTERNS.items()}
        self.files, around = list(_files(place, self.found)), [place.resolve().name]
        if not student:
            self._leave_out_wrappers(around)
        self.lab_around = next(filter(None, map(_lab_in, reversed(around))), None)
        self.around, self.people = around[-1], _gradescope_people(self.files)
        tasks = [re.match(r"(.+?)_attempt_\d{4}(?:-\d\d){5}", file.path) for file in self.files]
        names = [match[1] for match in tasks if match]  # all begin with Blackboard's task
        self.task = "".join(os.path.commonprefix(names).rpartition("_")[:2])

    def _leave_out_wrappers(self, around):
        """Leave out of the paths the folders that are around everybody's."""
        while True:
            real = [f.path for f in self.files if not f.path.startswith(".")]
            tops = {path.partition("/")[0] for path in real if "/" in path}
            loose = [path for path in real if "/" not in path]
            if len(tops) != 1 or any(name.endswith((".py", ".zip")) for name in loose):
                return
            (top,) = tops
            inner = [path.partition("/")[2] for path in real if "/" in path]
            if self._of_a_platform(real) or not (self._of_a_platform(inner) or _wraps(top, inner)):
                return
            below = [f for f in self.files if f.path.startswith(top + "/")]
            self.files = [replace(f, path=f.path.removeprefix(top + "/")) for f in below]
            around.append(top)

    def _of_a_platform(self, paths):
        names = self.patterns.keys() - {"plain", "file"}
        return any(self.patterns[name].fullmatch(path) for path in paths for name in names)

    def look_at(self, file):
        said, shape = self._said(file.path)
        if not said:
            if file.path.endswith((".py", ".zip")) and not file.path.startswith("."):
                why = "whose is it? Give the folder around the students' own, or --pattern"
                self.found.ignored.append((clean(file.path, 300), why))
            return
        key = said["name"], said.get("number") or ""
        if key not in self.students:
            members, when = self.people.get(said["name"], ([_member(shape, *key)], None))
            self.students[key] = _Student(shape, clean(file.path, 300), members, when)
        self._add(self.students[key], said, file, (said.get("file") or file.path).split("/"))

    def _said(self, path):
        """(what a pattern's groups say of a path, the pattern's name), or (None, "")."""
        if self.student:
            return {"name": self.student, "file": path}, "plain"
        for shape, pattern in self.patterns.items():
            for text in (path.removeprefix(self.task), f"{self.around}/{path}"):
                if (shape == "clone" or text in path) and (match := pattern.fullmatch(text)):
                    return match.groupdict(), shape
        return None, ""

    def _add(self, student, said, file, rest):
        """Take a file of a student's into account: a starter, another program, or what is there."""
        match, hidden = STARTER.fullmatch(rest[-1]), any(part.startswith(".") for part in rest[:-1])
        if rest[-1].lower().endswith(".zip") and file.read and not hidden:
            return self._add_archive(student, said, file, rest)
        if rest[-1].lower().endswith(".py") and file.read and not hidden:
            task = said.get("task") or self.task or said["name"]
            lab = _lab_of(match, rest) or self.only or _lab_in(task) or self.lab_around
            if lab in (None, *self.labs):
                if match and self.only in (None, lab):
                    one = _handin(student, said, file, lab)
                    attempt = int(said.get("attempt") or 0)
                    rank = -attempt, -one.when.timestamp() if one.when else 0
                    rank += _lab_of(match, rest) is None, -int(match["copy"] or 0)
                    rank += "labs" not in rest, len(rest), rest
                    student.starters.setdefault(lab, []).append((rank, one))
                elif self.only in (None, lab) and len(student.programs) < 2:
                    student.programs.append((rest[-1], _handin(student, said, file, lab)))
            elif match:
                why = f"{lab} is not one of {', '.join(self.labs)}"
                student.told = clean(file.path, 300), why
        if len(rest) <= 3 and not rest[-1].startswith(".") or file.about or hidden and match:
            student.there.append(clean("/".join(rest), 100) + file.about)
        return None

    def _add_archive(self, student, said, file, rest):
        """A student's zip file stands for its files; a zip file inside that one does not."""
        try:
            data = BytesIO(_read(file, student, MOST_STUDENT_BYTES))
            student.listing_bytes += _listing_bytes(data)
            if student.listing_bytes > MOST_LISTING_BYTES:
                raise Problem(f"zip files of too many files; {ALONE}")
            for member in _zip_files(data):
                inner = [*rest[:-1], rest[-1][:-4], *member.path.split("/")]
                if inner[-1].lower().endswith(".zip"):
                    about = f", a zip file in a zip file, which is not opened: {ALONE}"
                    member = replace(member, read=None, about=about)
                path = "/".join([file.path, member.path])
                self._add(student, said, replace(member, path=path), inner)
        except Problem as problem:
            student.told = clean(file.path, 300), str(problem)

    def settle(self):
        """A hand-in for each student and lab begun; one that says why not of who has none."""
        labs = {lab for one in self.students.values() for lab in one.starters} - {None}
        for _, student in sorted(self.students.items()):
            self._name_the_lab(student, labs)
            begun = {
                lab: those
                for lab, those in student.starters.items()
                if not all(one.source and _untouched(one.source) for _, one in those)
            }
            if not self.only:  # of a whole course, a lab that is not begun is not handed in
                student.starters = begun or student.starters
            for lab, those in sorted(student.starters.items()):
                self._choose(student, lab, [one for _, one in sorted(those, key=lambda o: o[0])])
        labs = {self.only} if self.only else {one.lab for one in self.found.handins}
        number = self.only.removeprefix("lab-") if self.only else "NN"
        for _, student in sorted(self.students.items()):
            there = "; there is " + ", ".join(student.there[:3]) if student.there else " in it"
            why = ": ".join(student.told) or f"no starter.py or starter-{number}.py{there}"
            if student.told and (student.starters or not labs):  # it has no row, or one of another
                self.found.ignored.append(student.told)
            for lab in sorted(labs) if not student.starters else ():
                self._give(student, HandIn("", lab, student.where, student.shape, None, why))

    def _name_the_lab(self, student, labs):
        """Of starters that say no lab, the only one there is; of no starters, the only program."""
        unnamed, labs = student.starters.pop(None, []), set(student.starters) or labs
        if unnamed and len(labs) == 1:
            student.starters.setdefault(min(labs), []).extend(unnamed)
            for _, one in unnamed:
                one.lab = min(labs)
        elif unnamed:
            why = "which lab? Name it starter-01.py, put it in a folder lab-01, or use --lab 01"
            student.told = unnamed[0][1].where, why
        elif not student.starters and len(student.programs) == 1 and student.programs[0][1].lab:
            ((name, one),) = student.programs
            one.notes = [f"taken although it is called {clean(name, 60)}: the only program there"]
            student.starters[one.lab] = [((), one)]

    def _choose(self, student, lab, candidates):
        """The newest attempt that can be read; an untouched starter counts last."""
        good = [one for one in candidates if one.source is not None]
        edited = [one for one in good if not _untouched(one.source)]
        best = (edited or good or candidates)[0]
        if good and not edited:
            best.notes.append("the starter as it was handed out, without a change")
        if best.source is not None:
            best.notes += [f"{one.where}: {one.problem}" for one in candidates if one.problem]
        self._give(student, best)

    def _give(self, student, one):
        for name, clues in student.members:
            mine = replace(one, student=name, clues=clues, notes=list(one.notes))
            self.found.handins.append(mine)


# --- files and archives ------------------------------------------------------------------------


def _files(place, found):
    """Every file of a folder or zip file; links are named and not followed."""
    if place.is_dir():
        return _folder_files(place, found)
    if not place.is_file():
        raise Problem(f"{place} does not exist; give the folder or zip file of hand-ins")
    if place.suffix == ".py":
        return [_file(place, place.name)]
    try:
        return list(_zip_files(place))
    except Problem:
        raise Problem(f"{place} is neither a folder nor a zip file that can be read") from None


def _folder_files(root, found):
    def cannot(error):
        found.ignored.append((clean(os.path.relpath(error.filename, root)), error.strerror))

    for folder, folders, names in os.walk(root, onerror=cannot):
        path = Path(folder).relative_to(root)
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        deep = len(path.parts) > DEEPEST
        folders[:] = [] if deep else sorted(set(folders) - SKIPPED - set(linked))
        if path.parts and not names and not folders and not linked:
            yield File((path / "an empty folder").as_posix())
        for name in sorted([*names, *linked]):
            yield _file(Path(folder, name), (path / name).as_posix())


def _file(full, path):
    status = full.lstat()
    if stat.S_ISREG(status.st_mode):
        return File(path, status.st_size, full.read_bytes)
    link = stat.S_ISLNK(status.st_mode)
    return File(path, about=LINK if link else ", a pipe, socket or device, which is not read")


def _listing_bytes(file):
    """How long the list of a zip file's members is, by which zipfile itself reads it."""
    try:
        end = zipfile._EndRecData(file)
    except Exception:  # zipfile meets hostile bytes: whatever it raises is their doing
        return 0  # it will raise the same again
    return end[zipfile._ECD_SIZE] if end else 0


def _zip_files(place):
    """The files of a zip file, each opened when it is read; a Problem if it is none."""
    try:
        archive = zipfile.ZipFile(place)
        members = {one.filename: one for one in archive.infolist()}  # the last of a name counts
    except Exception:  # as above
        raise Problem("not a zip file, though it is called one") from None
    for member in members.values():
        parts = member.filename.replace("\\", "/").split("/")
        parts = [part for part in parts if part not in ("", ".", "..")]
        if not member.is_dir() and parts and not SKIPPED & set(parts):
            link = stat.S_ISLNK(member.external_attr >> 16)
            read = None if link else partial(_member_bytes, archive, member)
            yield File("/".join(parts), member.file_size, read, LINK * link)


def _member_bytes(archive, member):
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise Problem("packed in a way that few programs read; pack it as an ordinary zip file")
    try:
        with archive.open(member) as file:
            return file.read(member.file_size)
    except Exception as error:  # as above
        raise Problem(f"cannot be read from its zip file: {clean(error)}") from None


def _read(file, student, most):
    if file.size > most:
        raise Problem(f"a file of {file.size} bytes; the limit is {most} bytes")
    student.bytes += file.size
    if student.bytes > MOST_STUDENT_BYTES:
        raise Problem(f"files of more than {MOST_STUDENT_BYTES >> 20} MiB; {ALONE}")
    try:
        return file.read()
    except OSError as error:
        raise Problem(f"cannot be opened: {error.strerror}") from None


def _handin(student, said, file, lab):
    one = HandIn("", lab, clean(file.path, 300), student.shape)
    one.when = student.when or _time(said.get("time") or "")
    one.late = "late (Canvas)" if said.get("late") else ""
    try:
        source = _read(file, student, MOST_BYTES)
        if not source.strip():
            raise Problem("an empty file")
        if source[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in source:
            raise Problem("holds NUL bytes, as UTF-16 does; save it as UTF-8")
        one.source = source
    except Problem as problem:
        one.problem = str(problem)
    return one


def _untouched(source):
    """Whether nobody has changed this starter since it was derived, of whatever version it is."""
    text = source.decode("utf-8-sig", "replace")
    return not is_edited("".join(line.rstrip() + "\n" for line in text.splitlines()))


# --- what names say ----------------------------------------------------------------------------


def _compiled(pattern):
    try:
        compiled = re.compile(pattern)
        if {"name", "file"} <= compiled.groupindex.keys():
            return compiled
        why = "it needs the groups (?P<name>...) and (?P<file>...)"
    except re.error as error:
        why = str(error)
    raise Problem(
        f"--pattern {pattern}: {why}; an example is "
        r"'(?P<name>[^_/]+)_(?P<number>\d+)/(?P<file>.+)', of paths below the given folder"
    )


def _member(shape, name, number):
    number_is = {"Moodle": f"Participant {number}"}.get(shape, number)  # no person's number
    shown = unicodedata.normalize("NFC", clean(name, 80)) + (f" ({number})" if number else "")
    return shown, tuple(filter(None, (name, number and number_is)))


def _lab_of(match, rest):
    if match and match["lab"]:
        return f"lab-{match['lab']}" if match["lab"].isdigit() else match["lab"].lower()
    return next(filter(None, map(_lab_in, reversed(rest))), None)


def _lab_in(text):
    """The lab that a name says, such as lab-01 or capstone, or None."""
    match = LAB.search(text)
    return match and (match[2].lower() if match[2] else f"lab-{int(match[1]):02}")


def _wraps(top, inner):
    """Whether the only folder at the top is around everybody's, and no student's own."""
    folders = {path.partition("/")[0] for path in inner if "/" in path}
    names = {path.partition("/")[0] for path in inner if not path.startswith(".")}
    plain = re.compile(PATTERNS["plain"])
    own = any(STARTER.fullmatch(name) or not plain.fullmatch(f"{name}/x") for name in names)
    return not own and bool(re.fullmatch(r"(?i).*(submissions?|export)", top) or len(folders) > 1)


def _time(text):
    """A time as Gradescope, Blackboard or Brightspace writes it, or None."""
    when = None
    with suppress(ValueError, OverflowError):
        when = datetime.fromisoformat(text.strip().replace(" ", "T", 1).replace(" ", ""))
    text = re.sub(r"(\d?\d):?(\d\d) ?(?=[AP]M)", r"\1:\2 ", text.replace(",", ""))
    for form in TIMES:
        with suppress(ValueError, OverflowError):
            when = when or datetime.strptime(text, form).astimezone()
    return when


def _gradescope_people(files):
    """submission_12 -> ([(name, clues) of its members], when), by submission_metadata.yml."""
    metadata = next((file for file in files if file.path == "submission_metadata.yml"), None)
    people, text = {}, metadata.read().decode("utf-8", "replace") if metadata else ""
    for number, about in re.findall(r"(?ms)^submission_(\d+):(.*?)(?=^\S|\Z)", text):
        # Deeper than two spaces stand a student's words too, such as what a test said.
        submitters = re.search(r"(?ms)^  :submitters:\s*$(.*?)(?=^  :|\Z)", about)
        when = re.search(r"(?m)^  :created_at:(.+)", about)
        members = []
        for one in re.split(r"(?m)^  - ", submitters[1] if submitters else "")[1:]:
            said = dict(re.findall(r"(?m)^ *:(name|sid|email): *(.+?) *$", one))
            said = {name: _yaml_text(text) for name, text in said.items()}
            if said.get("name"):
                members.append((f"{clean(said['name'], 80)} ({number})", tuple(said.values())))
        if members:
            people[f"submission_{number}"] = members, _time(when[1]) if when else None
    return people


def _yaml_text(text):
    """What a YAML scalar of one line says: 'Pat O''Brien' is Pat O'Brien, "Jos\\u00e9" José."""
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    with suppress(ValueError, SyntaxError):
        return ast.literal_eval(text) if text[0] == '"' else text
    return text
