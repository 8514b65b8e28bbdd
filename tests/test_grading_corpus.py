"""Every hostile and every unlucky submission comes to what its header says, and the honest one that
is graded at the same moment keeps full marks."""

import hashlib
import os
import re
import secrets
from pathlib import Path

import numpy as np
import pytest

from grading.fingerprint import labs_by_prefix
from grading.grader import Grader
from grading.limits import MIB, Limits
from grading.run import grade_locally
from grading.sandbox import inspect_machine
from grading.submissions import Submission, _text_or_problem
from labkit.loading import ROOT
from tests.hostile.corpus import read_cases

LABS = labs_by_prefix()
LAB = LABS["lab-01"]
CASES = read_cases()
# Short, so that the ones that never end cost seconds; long enough for the slow and honest one.
LIMITS = Limits(
    check_s=3, submission_s=6, cpu_s=6, memory_bytes=300 * MIB, address_space_bytes=2048 * MIB
)
isolation = {"namespaces", "seccomp"} <= set(inspect_machine().layers)
pytestmark = pytest.mark.skipif(
    not isolation and not os.environ.get("CI"),
    reason="this machine cannot isolate a submission: python -m grading doctor",
)


@pytest.fixture(scope="module")
def graded():
    """The whole class, graded in one run by two graders: {case: result}, [results beside them].

    Every hostile or unlucky submission has an honest one beside it.
    """
    jobs, solution = [], LAB.file("solution").read_bytes()
    for case in CASES:
        source, problem = _text_or_problem(case.source(LABS[case.lab]))
        jobs.append((case.name, Submission(case.name, case.lab, case.name, source, problem)))
        jobs.append((None, Submission("honest", LAB.prefix, "honest", solution, "")))
    found = list(grade_locally(jobs, LIMITS, secrets.token_bytes(32), False, 2))
    beside = [result for name, _, result, _ in found if name is None]
    return {name: result for name, _, result, _ in found if name}, beside


def snapshot():
    """The files a submission could want to change, by their hashes."""
    folders = [LAB.path, ROOT / "grading", ROOT / "labkit"]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_corpus_is_large_and_covers_every_kind():
    groups = {case.group for case in CASES}
    assert sum(case.group not in ("control", "honest", "unlucky") for case in CASES) >= 150
    assert groups >= {"exit", "report", "wire", "value", "bend", "secret", "workspace", "resource"}
    assert groups >= {"text", "unlucky", "control", "honest"}


@pytest.mark.timeout(300)  # the first one waits for the whole class
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_comes_to_what_it_deserves(case, graded):
    result = graded[0][case.name]
    assert case.problems(result) == []
    if "says" in case.header:
        said = " ".join(claim["message"] for claim in result["claims"])
        assert case.header["says"] in said


def test_the_honest_beside_them_keep_full_marks(graded):
    assert len(graded[1]) == len(CASES)
    assert {(result["status"], result["score"]) for result in graded[1]} == {("graded", 100)}


def test_slow_but_honest_has_its_time_again_for_the_hidden_numbers():
    slow = """
import time

_row = row_parallel


def row_parallel(x, W, num_ranks):
    time.sleep(0.1)
    return _row(x, W, num_ranks)
"""
    with Grader(Limits(submission_s=4), secret=secrets.token_bytes(32), number=3) as grader:
        result = grader.grade((LAB.file("solution").read_text() + slow).encode(), LAB)
    assert (result["status"], result["score"]) == ("graded", 100), result["problem"]


def test_nothing_is_left_behind():
    before = snapshot()
    hostile = [case for case in CASES if case.group in ("workspace", "report")]
    with Grader(LIMITS, number=3) as grader:
        for case in hostile:
            grader.grade(case.source(LAB), LAB)
        server = grader.cell.process.pid
        uid = grader.cell.uid
        groups = list(grader.cell.cgroup.folders)
    assert snapshot() == before
    assert not Path("/tmp/forged").exists()
    assert not Path(f"/proc/{server}").exists()
    assert not [folder for folder in groups if folder.exists()]
    if uid is not None:
        owners = [path.stat().st_uid for path in Path("/proc").glob("[0-9]*") if path.exists()]
        assert uid not in owners


def test_hidden_numbers_are_told_to_nobody(graded):
    """What a submission remembers of the hidden checks reaches no message and no kept output."""
    result = graded[0]["secret_tell_the_numbers"]
    assert result["hidden_checks"] > 5
    published = set()
    for shape in ((5, 24), (2, 5, 24), (5, 10)):
        published.add(float(np.random.default_rng([7, *shape]).standard_normal(shape).flat[0]))
    text = " ".join([result["printed"], *(claim["message"] for claim in result["claims"])])
    told = {float(number) for number in re.findall(r"(?<=[\[ ])-?\d\.\d{6,}", text)}
    assert told and told <= published
