"""Every hostile and every unlucky submission comes to what its header says, and the honest one that
is graded at the same moment keeps full marks."""

import hashlib
import json
import secrets
import statistics
from pathlib import Path

import pytest

from grading.fingerprint import labs_by_prefix
from grading.grader import Grader
from grading.limits import MIB, Limits
from grading.pages import student_page
from grading.run import grade_locally
from grading.submissions import Submission, _source
from labkit.loading import ROOT
from tests.hostile.corpus import read_cases

LABS = labs_by_prefix()
LAB = LABS["lab-01"]
CASES = read_cases()
MEMORY = {"memory_bytes": 300 * MIB}
LIMITS = Limits(check_s=60, submission_s=300, **MEMORY)  # a busy machine harms no honest one
NEIGHBOURS = 16  # hostile or unlucky submissions to an honest one
pytestmark = pytest.mark.isolation


@pytest.fixture(scope="module")
def graded(without_engines):
    """The whole class, graded by two graders: {case: result}, [results of the honest beside]."""
    ending = [case for case in CASES if case.ends]
    secret = secrets.token_bytes(32)
    results, beside, times = {}, [], []

    def grade(jobs, limits, secret):
        for name, _, result, seconds in grade_locally(jobs, limits, secret, False, 2):
            if name is None:
                beside.append(result)
                continue
            results[name] = result
            if name.startswith("honest"):
                times.append(seconds)

    grade(class_of(ending), LIMITS, secret)
    endless = [case for case in CASES if not case.ends]
    # No honest one is among them: limits so short are none for it on a busy machine.
    grade(map(job_of, endless), short_limits(statistics.median(times)), None)
    return results, beside


def short_limits(usual_s):
    """For the ones that never end: what an honest one takes here and now."""
    times = {"check_s": max(2, usual_s), "submission_s": max(4, 2 * usual_s)}
    return Limits(**times, **MEMORY)


def job_of(case):
    source, problem = _source(lambda _: case.source(LABS[case.lab]), None)
    return case.name, Submission(case.name, case.lab, case.name, source, problem)


def class_of(cases):
    """Jobs for grade_locally: the cases, and honest ones among them."""
    for n, case in enumerate(cases):
        yield job_of(case)
        if n % NEIGHBOURS == 0:
            lab = LABS["lab-03"]
            solution = lab.file("solution").read_bytes() + f"# {n}\n".encode()
            yield None, Submission(f"honest {n}", lab.prefix, "honest", solution, "")


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


@pytest.mark.timeout(900)  # the first one waits for the whole class
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_comes_to_what_it_deserves(case, graded):
    result = graded[0][case.name]
    assert case.problems(result) == []
    if "says" in case.header:
        said = " ".join(claim["message"] for claim in result["claims"])
        assert case.header["says"] in said


def test_the_honest_beside_them_keep_full_marks(graded):
    assert len(graded[1]) >= len(CASES) // NEIGHBOURS
    assert {(result["status"], result["score"]) for result in graded[1]} == {("graded", 100)}


def test_nothing_is_left_behind():
    before = snapshot()
    hostile = [case for case in CASES if case.group in ("workspace", "report")]
    with Grader(LIMITS, number=3) as grader:
        for case in hostile:
            grader.grade(case.source(LAB), LAB)
        server = grader.cell.process.pid
        uid = grader.cell.uid
    assert snapshot() == before
    assert not Path("/tmp/forged").exists()
    assert not Path(f"/proc/{server}").exists()
    if uid is not None:
        owners = [path.stat().st_uid for path in Path("/proc").glob("[0-9]*") if path.exists()]
        assert uid not in owners


def test_nothing_of_one_submission_reaches_another(graded):
    for name, result in graded[0].items():
        text = json.dumps(result) + student_page(name, [page_record(result)])
        assert ("canary-7d1f93aa" in text) == (name == "canary_keeper"), name
        assert "7.19393e+77" not in text, name


def page_record(result):
    more = {"lab_name": "", "max_score": 100, "source_sha256": "", "tests_sha256": ""}
    return result | more
