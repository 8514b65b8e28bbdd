"""The gradebook is a folder: grades/LAB/STUDENT.json and, beside it, the file that was graded.

    {"schema": "lab-scores/1", "implementation": "starter", "labs": [labkit's entry],
     "student": str, "handin": its path in the export, "shape": the platform, "digest": str,
     "graded_at": str, "seconds": float, "late": str, "notes": [str]}

Each file is written by rename, so a kill at any moment loses at most the hand-in at work. `digest`
covers all that a grade depends on: the hand-in, the lab's folder, labkit, this tool, the secret.
"""

import hashlib
import json
import os
import platform
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path

import numpy
import pytest

from grading.handins import HandIn
from grading.roster import Adjustment, Person
from grading.text import Problem, file_name, folded
from labkit.loading import ROOT, Lab, find_labs
from labkit.scoreboard import TOTAL

DATA = (".py", ".json", ".jsonl", ".txt", ".log", ".toml")


@cache
def labs() -> dict[str, Lab]:
    """lab-01 -> Lab."""
    return {lab.prefix: lab for lab in find_labs()}


@cache
def course_digest(prefix) -> str:
    """The hash of a lab's folder without the starter, and of what every lab is graded by."""
    lab, digest = labs()[prefix], hashlib.sha256()
    paths = [path for path in lab.path.rglob("*") if path != lab.file("starter")]
    paths += [*lab.path.parent.glob("*.py"), *(ROOT / "labkit").rglob("*.py")]
    paths += [*Path(__file__).parent.rglob("*.py")]
    for path in sorted(path for path in paths if path.suffix in DATA and path.is_file()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}:{len(data)}:".encode() + data)
    versions = platform.python_version(), numpy.__version__, pytest.__version__
    digest.update(repr(versions).encode())
    return digest.hexdigest()


def replace_file(path: Path, data: bytes, mode=0o666):
    """Write the file in one step: whoever reads it finds all of it, or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.unlink(missing_ok=True)
    with open(partial, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


@dataclass
class Gradebook:
    """The records in a folder, by student and lab."""

    folder: Path

    def secret(self) -> str:
        """What the hidden numbers are drawn from: made once, for the owner of the folder alone."""
        path = self.folder / "secret"
        if not path.exists():
            replace_file(path, secrets.token_hex(16).encode(), 0o600)
        return path.read_text(encoding="utf-8").strip()

    def path(self, student, lab) -> Path:
        return self.folder / lab / f"{file_name(student)}.json"

    def source(self, student, lab) -> Path:
        """The file that was graded."""
        return self.path(student, lab).with_suffix(".py")

    def digest(self, one: HandIn) -> str:
        """The hash of everything that the grade of a hand-in depends on."""
        parts = [course_digest(one.lab), self.secret(), one.problem, one.student]
        text = json.dumps([*parts, one.notes, one.late, one.where])
        return hashlib.sha256(text.encode() + b"\0" + (one.source or b"")).hexdigest()

    def stands(self, one: HandIn) -> bool:
        """Whether there is a record, and of this very hand-in."""
        try:
            record = _read(self.path(one.student, one.lab))
        except (Problem, FileNotFoundError):
            return False  # graded anew
        return record["student"] == one.student and record["digest"] == self.digest(one)

    def records(self) -> dict[str, dict[str, dict]]:
        """student -> lab -> record, both in order."""
        table = {}
        for prefix in labs():
            for path in sorted((self.folder / prefix).glob("*.json")):
                record = _read(path)
                table.setdefault(record["student"], {})[prefix] = record
        return dict(sorted(table.items()))

    def keep_source(self, one: HandIn):
        """Write the hand-in's file, which is then graded."""
        path = self.source(one.student, one.lab)
        if one.source is None:
            path.unlink(missing_ok=True)  # of an earlier attempt
        else:
            replace_file(path, one.source)

    def write(self, one: HandIn, entry: dict):
        """Keep the entry that labkit (or `nothing`) made of a hand-in."""
        entry = dict(entry)
        seconds, notes = entry.pop("seconds", 0.0), [*one.notes, *entry.pop("notes", [])]
        record = {"schema": "lab-scores/1", "implementation": "starter", "student": one.student}
        record |= {"handin": one.where, "shape": one.shape, "digest": self.digest(one)}
        record["graded_at"] = datetime.now().astimezone().isoformat(timespec="seconds")
        record |= {"seconds": seconds, "late": one.late, "notes": notes, "labs": [entry]}
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        replace_file(self.path(one.student, one.lab), text.encode("utf-8", "replace"))


def _read(path):
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        record["student"], record["labs"][0]["points"]["earned"], record["digest"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise Problem(f"{path} is no record of a grade: remove it, and run again") from None
    return record


def nothing(one: HandIn) -> dict:
    """The entry of a hand-in that holds no file to grade."""
    points = dict.fromkeys(("earned", "not_run", "not_reached", "not_selected"), 0)
    entry = {"lab": labs()[one.lab].name, "file": "", "sha256": "", "broken": one.problem}
    return entry | {"points": points | {"total": TOTAL}, "claims": []}


def entry_of(record) -> dict:
    """labkit's entry of the one lab in a record."""
    return record["labs"][0]


@dataclass
class Grades:
    """What the exports are made of."""

    book: Gradebook
    table: dict[str, dict[str, dict]]  # student -> lab -> record
    people: list[Person] = field(default_factory=list)
    adjustments: list[Adjustment] = field(default_factory=list)
    questions: list[tuple[str, str]] = field(default_factory=list)  # (whose, what to decide)
    alike: list[tuple[str, str, list[str]]] = field(default_factory=list)  # grading.similar's

    @cached_property
    def students(self) -> list[str]:
        those = {person.student for person in self.people} | self.table.keys()
        return sorted(those, key=lambda name: (folded(name), name))

    @cached_property
    def labs(self) -> list[str]:
        there = {lab for row in self.table.values() for lab in row}
        there |= {one.lab for one in self.adjustments}
        return [prefix for prefix in labs() if prefix in there]

    def handed_in(self) -> list[tuple[str, str, dict]]:
        """(student, lab, record) of each."""
        return [
            (student, lab, one) for student, row in self.table.items() for lab, one in row.items()
        ]

    def record(self, student, lab) -> dict | None:
        return self.table.get(student, {}).get(lab)

    def labs_of(self, student) -> list[str]:
        return [lab for lab in self.labs if self.score(student, lab) is not None]

    def adjusted(self, student, lab) -> list[Adjustment]:
        return [one for one in self.adjustments if (one.student, one.lab) == (student, lab)]

    def score(self, student, lab) -> int | None:
        """The points with what the instructor adjusts, nothing cut off; None: nothing is there."""
        record, adjusted = self.record(student, lab), self.adjusted(student, lab)
        if record is None and not adjusted:
            return None
        earned = entry_of(record)["points"]["earned"] if record else 0
        return earned + sum(one.points for one in adjusted)

    def total(self, student) -> int:
        return sum(self.score(student, lab) or 0 for lab in self.labs)
