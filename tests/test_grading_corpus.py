"""Every honest, unlucky and hostile submission comes to what its header says."""

import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grading.cell import Limits
from grading.grade import grade
from labkit.loading import ROOT, find_labs
from tests.hostile.corpus import read_cases

LABS = {lab.prefix: lab for lab in find_labs()}
CASES = read_cases()
PATIENT = Limits(check_s=60, all_s=300)  # a busy machine harms no honest one
SHORT = Limits(check_s=2, all_s=10)
pytestmark = pytest.mark.isolation


@pytest.fixture(scope="module")
def graded(without_engines, tmp_path_factory):
    """The whole class, two at a time: {case: entry}."""
    secret, folder = secrets.token_hex(32), tmp_path_factory.mktemp("class")

    def entry(case):
        lab, file = LABS[case.lab], folder / case.name / "starter.py"
        file.parent.mkdir()
        file.write_bytes(case.source(lab))
        return grade(file, lab.name, secret=secret, limits=PATIENT if case.ends else SHORT)

    before = snapshot()
    with ThreadPoolExecutor(2) as pool:
        entries = dict(zip([case.name for case in CASES], pool.map(entry, CASES), strict=True))
    assert snapshot() == before
    return entries


def snapshot():
    """The files a submission could want to change, by their hashes."""
    folders = [LABS["lab-01"].path, ROOT / "grading", ROOT / "labkit"]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    left = [path for path in map(Path, ("/tmp/forged", "/tmp/left", "/dev/shm/left"))]
    hashes = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return hashes | {path: path.exists() for path in left}


def test_the_corpus_covers_every_kind_and_stays_small():
    kinds = {case.name.partition("_")[0] for case in CASES}
    assert kinds >= {"honest", "unlucky", "exit", "report", "value", "wire", "secret", "resource"}
    assert len(CASES) <= 100


@pytest.mark.timeout(900)  # the first one waits for the whole class
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_comes_to_what_it_deserves(case, graded):
    assert case.problems(graded[case.name]) == []


def test_no_text_of_a_submission_acts_where_it_is_shown(graded):
    texts = [text for entry in graded.values() for text in strings(entry)]
    assert any("alert(1)" in text for text in texts)
    assert all(c.isprintable() or c == "\n" for text in texts for c in text)
    assert max(map(len, texts)) < 5000


def strings(value):
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        return [text for item in value for text in strings(item)]
    return [value] if isinstance(value, str) else []
