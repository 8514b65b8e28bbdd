"""What was graded: an SQLite file, one committed record per submission and lab, never rewritten.

A record's key is a hash of everything its result depends on, so a second run skips what is there
and a changed test, file, environment or limit is graded anew. Exports are pure functions of this.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import sqlite3
import time
from dataclasses import asdict
from pathlib import Path

from grading.problem import Problem
from grading.roster import Person

SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY, student TEXT NOT NULL, lab TEXT NOT NULL,
    record TEXT NOT NULL, seconds REAL NOT NULL, graded_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS hand_ins (
    student TEXT NOT NULL, lab TEXT NOT NULL, key TEXT NOT NULL, place TEXT NOT NULL,
    late TEXT NOT NULL, problem TEXT NOT NULL, PRIMARY KEY (student, lab));
CREATE TABLE IF NOT EXISTS people (student TEXT PRIMARY KEY, person TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS adjustments (
    student TEXT NOT NULL, lab TEXT NOT NULL, points INTEGER NOT NULL, because TEXT NOT NULL,
    PRIMARY KEY (student, lab));
"""
TABLES = ("records", "hand_ins", "people", "adjustments")
IDENTITY = ("student", "lab", "place", "key", "late")


def key_of(**parts) -> str:
    """The hash of named parts: bytes, or what JSON takes."""
    text = json.dumps(parts, sort_keys=True, default=bytes.hex)
    return hashlib.sha256(text.encode()).hexdigest()


def replace_file(path, data: bytes, mode=0o666):
    """Write the file in one step: whoever reads it finds all of it, or what was there before."""
    partial = path.with_name(path.name + ".part")
    partial.unlink(missing_ok=True)
    with open(partial, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


class Gradebook:
    """Open to write (one process at a time; a new one unless `old`) or only to read."""

    def __init__(self, folder, write=False, old=False):
        self.path = Path(folder) / "gradebook.sqlite"
        self._lock = None
        if (old or not write) and not self.path.exists():
            raise Problem(f"no grades in {folder}; `python -m grading run` makes some")
        if write:
            self._take_lock()
        mode = "rwc" if write else "ro"
        self.db = sqlite3.connect(f"{self.uri}?mode={mode}", uri=True, timeout=10)
        if write:
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            self.db.execute("PRAGMA secure_delete=ON")  # who is forgotten is overwritten
            self.db.executescript(SCHEMA)

    @property
    def uri(self):
        return self.path.resolve().as_uri()

    def _take_lock(self):
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path.with_suffix(".lock"), "ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise Problem(
                f"another run is writing to {folder}; wait for it or change --out"
            ) from None
        except OSError as error:
            raise Problem(
                f"cannot write to {folder} ({error.strerror}); give --out a folder that you may "
                "write to"
            ) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._lock:
            # Who may only read the folder cannot read a WAL; one who is reading now keeps it.
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("PRAGMA busy_timeout=0")
                self.db.execute("PRAGMA journal_mode=DELETE")
        self.db.close()
        if self._lock:
            self._lock.close()

    def secret(self) -> bytes:
        """What the hidden numbers are made of: drawn once, for the owner of the folder alone."""
        path = self.path.with_suffix(".secret")
        try:
            if not path.exists():
                replace_file(path, secrets.token_bytes(32), 0o600)
            return path.read_bytes()
        except OSError as error:
            raise Problem(
                f"{path}, which the hidden numbers are made of, cannot be used ({error.strerror}); "
                "restore it, or give --secret FILE"
            ) from None

    # --- writing ----------------------------------------------------------------------------

    def set_hand_ins(self, rows):
        """The submissions of this run, (student, lab, key, place, late) each; others stay."""
        insert = "INSERT OR REPLACE INTO hand_ins VALUES (?, ?, ?, ?, ?, 'not graded yet')"
        with self.db:
            self.db.executemany(insert, rows)

    def set_people(self, people: list[Person]):
        """The roster, in place of the one before."""
        rows = [(person.student, json.dumps(asdict(person))) for person in people]
        with self.db:
            self.db.execute("DELETE FROM people")
            self.db.executemany("INSERT INTO people VALUES (?, ?)", rows)

    def adjust(self, student, lab, points, because):
        """Points on top of what was graded, or less; 0 takes the adjustment away."""
        with self.db:
            self.db.execute("DELETE FROM adjustments WHERE (student, lab) = (?, ?)", (student, lab))
            if points:
                values = (student, lab, points, because)
                self.db.execute("INSERT INTO adjustments VALUES (?, ?, ?, ?)", values)

    def set_aside(self, students):
        """Their records no longer count, so that the next run grades them; `diff` knows them."""
        with self.db:
            self.db.executemany(
                "UPDATE records SET key = key || ' until ' || graded_at WHERE key IN "
                "(SELECT key FROM hand_ins WHERE student = ?)",
                [(student,) for student in students],
            )

    def forget(self, student):
        with self.db:
            for table in TABLES:
                self.db.execute(f"DELETE FROM {table} WHERE student = ?", (student,))
        self.db.execute("VACUUM")

    def merge(self, folder):
        """Add what another gradebook holds; of the rows that both have, which it returns, the one
        graded later counts."""
        with Gradebook(folder) as other:  # says what is wrong with it
            both = self.roster() & other.roster()
        self.db.execute("ATTACH ? AS other", (f"{other.uri}?mode=ro",))
        newer = "SELECT max(graded_at) FROM {}.records WHERE student = h.student AND lab = h.lab"
        with self.db:
            self.db.execute(
                "INSERT OR REPLACE INTO hand_ins SELECT * FROM other.hand_ins h WHERE "
                f"coalesce(({newer.format('other')}), 0) >= coalesce(({newer.format('main')}), -1)"
            )
            for table in TABLES:
                self.db.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table}")
        self.db.execute("DETACH other")
        theirs, own = (book.path.with_suffix(".secret") for book in (other, self))
        if theirs.exists() and not own.exists():
            replace_file(own, theirs.read_bytes(), 0o600)
        return both

    def commit(self, key, student, lab, record, seconds):
        """One record, on the disk when this returns. The first one for a key stays."""
        text = json.dumps(record, sort_keys=True)
        values = (key, student, lab, text, seconds, time.time())
        with self.db:
            self.db.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?)", values)

    def hold(self, key, problem):
        """The grader failed on this one: remembered, retried by the next run, never a zero."""
        with self.db:
            self.db.execute("UPDATE hand_ins SET problem = ? WHERE key = ?", (problem, key))

    # --- reading ----------------------------------------------------------------------------

    def keys(self) -> set[str]:
        return {key for (key,) in self.db.execute("SELECT key FROM records")}

    def roster(self) -> set[tuple[str, str]]:
        """(student, lab) of every submission of any run."""
        return set(self.db.execute("SELECT student, lab FROM hand_ins"))

    def people(self) -> list[Person]:
        """The roster of the last run that had one."""
        rows = self.db.execute("SELECT person FROM people ORDER BY student")
        return [Person(**json.loads(text)) for (text,) in rows]

    def records(self) -> list[dict]:
        """What counts: student, lab, place, key, late and the result, with its adjustment in it."""
        rows = self.db.execute(
            "SELECT student, lab, h.place, key, h.late, g.record, a.points, a.because "
            "FROM hand_ins h JOIN records g USING (student, lab, key) "
            "LEFT JOIN adjustments a USING (student, lab) ORDER BY student, lab"
        )
        return [
            _adjusted(dict(zip(IDENTITY, row, strict=False)) | json.loads(row[5]), *row[6:])
            for row in rows
        ]

    def former(self) -> list[dict]:
        """What counted before for the same student and lab, if there was such a record."""
        rows = self.db.execute(
            "SELECT student, lab, g.record, max(g.graded_at) FROM records g JOIN hand_ins h "
            "USING (student, lab) WHERE h.key != g.key GROUP BY student, lab ORDER BY student, lab"
        )
        return [{"student": name, "lab": lab} | json.loads(text) for name, lab, text, _ in rows]

    def waiting(self) -> list[tuple[str, str, str]]:
        """(student, lab, why) of the roster's submissions that have no record yet."""
        return list(
            self.db.execute(
                "SELECT student, lab, problem FROM hand_ins "
                "WHERE key NOT IN (SELECT key FROM records) ORDER BY student, lab"
            )
        )

    def seconds(self) -> list[float]:
        return [value for (value,) in self.db.execute("SELECT seconds FROM records")]


def _adjusted(record, points, because):
    """The record with an adjustment as one more claim, which every export shows as it is."""
    if not points:
        return record
    score = max(0, min(record["max_score"], record["score"] + points))
    claim = {
        "name": "adjustment",
        "text": f"Adjusted by {points:+d}: {because}",
        "points": 0,
        "earned": score - record["score"],
        "outcome": "adjusted",
    }
    claim |= {"message": "", "hint": "", "broken": ""}
    return record | {"score": score, "claims": [*record["claims"], claim]}
