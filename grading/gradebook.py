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
from pathlib import Path

SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY, student TEXT NOT NULL, lab TEXT NOT NULL,
    record TEXT NOT NULL, seconds REAL NOT NULL, graded_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS roster (
    student TEXT NOT NULL, lab TEXT NOT NULL, key TEXT NOT NULL, place TEXT NOT NULL,
    PRIMARY KEY (student, lab));
CREATE TABLE IF NOT EXISTS held (
    key TEXT PRIMARY KEY, student TEXT NOT NULL, lab TEXT NOT NULL,
    problem TEXT NOT NULL, tries INTEGER NOT NULL);
"""


class GradebookError(Exception):
    """The gradebook cannot be used now; str() is one sentence."""


def key_of(**parts) -> str:
    """The hash of named parts: str, bytes or None."""
    digest = hashlib.sha256()
    for name, value in sorted(parts.items()):
        data = b"" if value is None else value.encode() if isinstance(value, str) else value
        digest.update(f"{name}:{'-' if value is None else len(data)}:".encode() + data)
    return digest.hexdigest()


class Gradebook:
    """Open to write (one process at a time) or only to read."""

    def __init__(self, folder, write=False):
        self.path = Path(folder) / "gradebook.sqlite"
        self._lock = None
        if write:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._take_lock()
            except OSError as error:
                raise GradebookError(
                    f"cannot write to {self.path.parent} ({error.strerror}); give --out a folder "
                    "that you may write to"
                ) from None
            self.db = sqlite3.connect(self.path, timeout=10)
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("PRAGMA synchronous=FULL")
            self.db.executescript(SCHEMA)
        elif not self.path.exists():
            raise GradebookError(f"no grades in {folder}; `python -m grading run` makes some")
        else:
            self.db = sqlite3.connect(
                f"{self.path.resolve().as_uri()}?mode=ro", uri=True, timeout=10
            )

    def _take_lock(self):
        path = self.path.with_suffix(".lock")
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise GradebookError(
                f"another run is writing to {self.path.parent}; wait for it or change --out"
            ) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._lock is not None:
            # Who may only read the folder cannot read a WAL; one who is reading now keeps it.
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("PRAGMA busy_timeout=0")
                self.db.execute("PRAGMA journal_mode=DELETE")
        self.db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def secret(self) -> bytes:
        """What the hidden numbers are made of: drawn once, for the owner of the folder alone."""
        path = self.path.with_suffix(".secret")
        try:
            if not path.exists():
                new = path.with_suffix(".new")
                new.unlink(missing_ok=True)
                with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(secrets.token_bytes(32))
                    os.fsync(file.fileno())
                new.rename(path)
            return path.read_bytes()
        except OSError as error:
            raise GradebookError(
                f"{path}, which the hidden numbers are made of, cannot be used ({error.strerror}); "
                "restore it, or give --secret FILE"
            ) from None

    # --- writing ----------------------------------------------------------------------------

    def set_roster(self, rows):
        """The submissions of this run: (student, lab, key, place) each. Others stay as they are."""
        with self.db:
            self.db.executemany("INSERT OR REPLACE INTO roster VALUES (?, ?, ?, ?)", rows)

    def commit(self, key, student, lab, record, seconds):
        """One record, on the disk when this returns. The first one for a key stays."""
        text = json.dumps(record, sort_keys=True)
        values = (key, student, lab, text, seconds, time.time())
        with self.db:
            self.db.execute("INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?, ?)", values)
            self.db.execute("DELETE FROM held WHERE key = ?", (key,))

    def hold(self, key, student, lab, problem):
        """The grader failed on this one: remembered, retried by the next run, never a zero."""
        with self.db:
            self.db.execute(
                "INSERT INTO held VALUES (?, ?, ?, ?, 1) ON CONFLICT (key) DO UPDATE SET "
                "problem = excluded.problem, tries = tries + 1",
                (key, student, lab, problem),
            )

    # --- reading ----------------------------------------------------------------------------

    def keys(self) -> set[str]:
        return {key for (key,) in self.db.execute("SELECT key FROM records")}

    def roster(self) -> set[tuple[str, str]]:
        """(student, lab) of every submission of any run."""
        return set(self.db.execute("SELECT student, lab FROM roster"))

    def records(self) -> list[dict]:
        """The graded records of the roster: student, lab, place, key and the result's fields."""
        rows = self.db.execute(
            "SELECT r.student, r.lab, r.place, r.key, g.record FROM roster r "
            "JOIN records g ON g.key = r.key ORDER BY r.student, r.lab"
        )
        return [
            {"student": name, "lab": lab, "place": place, "key": key} | json.loads(text)
            for name, lab, place, key, text in rows
        ]

    def waiting(self) -> list[tuple[str, str, str]]:
        """(student, lab, why) of the roster's submissions that have no record yet."""
        return list(
            self.db.execute(
                "SELECT r.student, r.lab, coalesce(h.problem, 'not graded yet') FROM roster r "
                "LEFT JOIN records g ON g.key = r.key LEFT JOIN held h ON h.key = r.key "
                "WHERE g.key IS NULL ORDER BY r.student, r.lab"
            )
        )

    def seconds(self) -> list[float]:
        return [value for (value,) in self.db.execute("SELECT seconds FROM records")]
