"""Nothing is lost: killed at any moment and run again, the exports are those of a calm run."""

import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grading import fingerprint
from grading.fingerprint import labs_by_prefix
from grading.gradebook import Gradebook, key_of
from grading.problem import Problem
from labkit.loading import ROOT, Lab
from tests.hostile.corpus import read_cases

LAB = labs_by_prefix()["lab-03"]  # the quickest to start
KILLS = 10


def start(submissions, out, *options):
    secret = out.parent / "secret"  # one for all runs: with another, what is compared differs
    secret.write_bytes(bytes(range(32)))
    command = [sys.executable, "-m", "grading", "run", str(submissions), "--out", str(out)]
    command += ["--secret", str(secret)]
    return subprocess.Popen(
        [*command, "--jobs", "2", "--check-s", "3", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def records_in(out):
    """How many records are on the disk, read as another process would."""
    try:
        with Gradebook(out) as gradebook:
            return len(gradebook.keys())
    except (Problem, sqlite3.OperationalError):
        return 0


def exports(out):
    """Every exported file and its hash: all but the gradebook itself."""
    files = [path for path in Path(out).rglob("*") if path.is_file()]
    kept = [path for path in files if not path.name.startswith("gradebook.")]
    return {str(p.relative_to(out)): hashlib.sha256(p.read_bytes()).hexdigest() for p in kept}


@pytest.fixture(scope="module")
def submissions(tmp_path_factory):
    """Solutions, starters and quick hostile ones, mixed."""
    root = tmp_path_factory.mktemp("submissions")
    quick = [case for case in read_cases() if case.group in ("text", "unlucky", "exit", "value")]
    sources = {case.name: case.source(LAB) for case in quick if case.name.endswith(("s", "n", "e"))}
    sources |= {f"good-{n}": LAB.file("solution").read_bytes() for n in range(6)}
    sources |= {f"new-{n}": LAB.file("starter").read_bytes() for n in range(6)}
    for name, source in sources.items():
        place = root / name / LAB.prefix / "starter.py"
        place.parent.mkdir(parents=True)
        place.write_bytes(source)
    return root, len(sources)


@pytest.mark.isolation
@pytest.mark.timeout(300)
def test_killed_again_and_again_the_exports_are_the_same(submissions, tmp_path):
    root, count = submissions
    calm = start(root, tmp_path / "calm")
    text, _ = calm.communicate(timeout=120)
    assert calm.returncode == 0, text
    expected = exports(tmp_path / "calm")
    assert len(expected) > 2 * count

    chance = random.Random(11)
    out = tmp_path / "killed"
    graded = [0]
    for kill in range(KILLS):
        run = start(root, out)
        # a third of them while it starts, the others some records later, between two or in one
        target = graded[-1] + (0 if kill % 3 == 0 else chance.randint(1, 3))
        deadline = time.monotonic() + (chance.uniform(0.1, 1.0) if kill % 3 == 0 else 60)
        while records_in(out) <= target and time.monotonic() < deadline and run.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.1))
        assert run.poll() is None, run.communicate()[0]
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        graded.append(records_in(out))
    assert graded == sorted(graded)  # no record is ever taken back
    assert 0 < graded[-1] < count  # and the kills hit a run that was under way
    last = start(root, tmp_path / "killed")
    text, _ = last.communicate(timeout=120)
    assert last.returncode == 0, text
    assert exports(tmp_path / "killed") == expected
    with Gradebook(tmp_path / "killed") as gradebook:
        assert len(gradebook.keys()) == len(gradebook.records()) == count

    again = start(root, tmp_path / "killed")
    text, _ = again.communicate(timeout=60)
    assert "0 graded in" in text and f"{count} were graded before" in text
    assert exports(tmp_path / "killed") == expected


@pytest.mark.isolation
def test_a_killed_grader_leaves_no_process(submissions, tmp_path):
    root, _ = submissions
    run = start(root, tmp_path / "out")
    deadline = time.monotonic() + 20
    children = []
    while time.monotonic() < deadline and len(children) < 4:
        children = descendants(run.pid)
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    while time.monotonic() < deadline and any(map(alive, children)):
        time.sleep(0.05)
    assert not [pid for pid in children if alive(pid)]


def descendants(pid):
    found, pending = [], [pid]
    while pending:
        for path in Path(f"/proc/{pending.pop()}/task").glob("*/children"):
            try:
                numbers = [int(number) for number in path.read_text().split()]
            except OSError:
                continue
            found += numbers
            pending += numbers
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_second_run_on_the_same_ledger_is_refused(tmp_path):
    with Gradebook(tmp_path, write=True):
        with pytest.raises(Problem, match="another run is writing"):
            Gradebook(tmp_path, write=True)
        Gradebook(tmp_path).close()  # reading is fine
    Gradebook(tmp_path, write=True).close()


def test_a_record_is_written_once(tmp_path):
    with Gradebook(tmp_path, write=True) as gradebook:
        gradebook.set_hand_ins([("ada", "lab-01", "k", "ada/starter-01.py", "")])
        assert gradebook.waiting() == [("ada", "lab-01", "not graded yet")]
        gradebook.hold("k", "the sandbox is gone")
        assert gradebook.waiting() == [("ada", "lab-01", "the sandbox is gone")]
        gradebook.commit("k", "ada", "lab-01", {"score": 7}, 0.1)
        gradebook.commit("k", "ada", "lab-01", {"score": 100}, 0.1)
        assert [record["score"] for record in gradebook.records()] == [7]
        assert gradebook.waiting() == []


def test_the_key_changes_with_everything_the_result_depends_on():
    parts = {"student": "a", "lab": "lab-01", "source": b"x", "tests": "t", "secret": None}
    key = key_of(**parts)
    assert key == key_of(**parts)
    for name in parts:
        assert key_of(**parts | {name: "other"}) != key
    # where one part ends and the next begins is part of the key
    assert key_of(a="xy", b="z") != key_of(a="x", b="yz")


def test_the_digest_changes_with_all_that_the_tests_read_or_execute(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    monkeypatch.setattr(fingerprint, "tests_digest", fingerprint.tests_digest.__wrapped__)
    original = labs_by_prefix()["lab-02"]
    lab = Lab(tmp_path / "labs" / original.name)
    shutil.copytree(original.path, lab.path)
    digest = fingerprint.tests_digest(lab)
    toy = "tensor_parallel_toy/stream_machine.py"
    data = ("captures/tp2/rank-0.log", "captures/tp2/report.json", "configs/llama-3-8b.json")
    for name in ("test_lab.py", "mistakes.py", "two_way.py", "live/engine.py", toy, *data):
        before = (lab.path / name).read_bytes()
        (lab.path / name).write_bytes(before + b"\n")
        assert fingerprint.tests_digest(lab) != digest, name
        (lab.path / name).write_bytes(before)
    for name in ("starter.py", "__pycache__/test_lab.cpython-312.pyc"):
        (lab.path / name).parent.mkdir(exist_ok=True)
        (lab.path / name).write_bytes(b"a learner's")
        assert fingerprint.tests_digest(lab) == digest, name


def test_who_may_only_read_the_folder_reads_the_grades(open_folder, nobody):
    with Gradebook(open_folder, write=True) as gradebook:
        gradebook.set_hand_ins([("ada", "lab-01", "k", "ada/starter-01.py", "")])
        gradebook.commit("k", "ada", "lab-01", {"score": 7}, 0.1)
    os.chmod(open_folder, 0o555)
    with nobody(), Gradebook(open_folder) as gradebook:
        assert [record["score"] for record in gradebook.records()] == [7]


def test_a_reader_does_not_keep_the_writer_waiting(tmp_path):
    with Gradebook(tmp_path, write=True) as gradebook:
        gradebook.set_hand_ins([("ada", "lab-01", "k", "ada/starter-01.py", "")])
        reader = Gradebook(tmp_path)
        rows = reader.db.execute("SELECT * FROM hand_ins")
        rows.fetchone()
        started = time.monotonic()
    assert time.monotonic() - started < 5
    reader.close()
    with Gradebook(tmp_path) as gradebook:
        assert gradebook.waiting() == [("ada", "lab-01", "not graded yet")]


def test_a_missing_ledger_is_said(tmp_path):
    with pytest.raises(Problem, match="no grades"):
        Gradebook(tmp_path)
