"""A grade is made on numbers that nobody knows, and explained on those that everybody has."""

import base64
import json
import os
import pickle
import re
import subprocess
import sys
import zlib

import pytest

from grading.fingerprint import labs_by_prefix
from grading.grader import Grader
from grading.hidden import SAME_FOR_ALL
from grading.limits import Limits
from labkit.claims import claims_in
from labkit.mistakes import read_bank
from tests.conftest import ROOT, Course
from tests.hostile.corpus import read_cases

LABS = labs_by_prefix()
SECRET = b"a secret of the tests' own, 32 b"
pytestmark = pytest.mark.usefixtures("without_engines")


def run(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "LAB_IMPL": "solution"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_both_kinds_of_generator_get_the_secret():
    run(
        "import random, numpy as np\n"
        "from grading.hidden import Numbers\n"
        "n, plain = Numbers(), np.random.Generator(np.random.PCG64(4)).random()\n"
        "def draw(): return random.Random(4).random(), np.random.default_rng([4, 2]).random()\n"
        "known = draw()\n"
        "assert np.random.default_rng(4).random() == plain and known == draw()\n"
        "n.secret = b'one'\n"
        "hidden = draw()\n"
        "assert not set(known) & set(hidden) and draw() == hidden\n"
        "n.secret = b'two'\n"
        "assert not set(hidden) & set(draw())\n"
    )


KEY = """
import base64, builtins, hashlib, json, pickle, re, zlib
import numpy as np

def key(value):
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, hashlib.sha256(value.tobytes()).digest()
    try:
        return hashlib.sha256(json.dumps(value).encode()).digest()  # a recording is long
    except TypeError:
        pass  # arrays and fractions in it
    if isinstance(value, (list, tuple)):
        return tuple(map(key, value))
    if isinstance(value, dict):
        return tuple((name, key(item)) for name, item in value.items())
    return re.sub("0x[0-9a-f]+", "", repr(value))
"""


CALLS = """
import sys
import pytest
from grading.hidden import Numbers
from labkit.session import RECORDER

class Twice:
    '''Runs every check with one secret and with another: the calls it makes of the solution.'''
    same, published = {}, []

    def pytest_runtestloop(self, session):
        for item in session.items:
            if item.get_closest_marker("points"):
                seen = [self.run(item, secret) for secret in (b"one", b"two")]
                known = self.same.get(item.originalname, True)
                self.same[item.originalname] = known and seen[0] == seen[1]
                self.run(item, None)
                self.published += self.calls
        return True

    def run(self, item, secret):
        numbers.secret = secret
        item._initrequest()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        self.calls = list(item.stash[RECORDER].calls) if RECORDER in item.stash else []
        return key([call[:3] for call in self.calls])

numbers, twice = Numbers(), Twice()
quick = ["-m", "not torch and not vllm"]  # those start processes, and are named as drawing nothing
plain_run = [*quick, "-p", "no:cacheprovider", "-p", "no:xdist"]
pytest.main([sys.argv[1], "-q", *plain_run], plugins=[twice])
plain = lambda x: not callable(x) and type(x).__module__ in ("builtins", "numpy", "fractions")
known = [c for c in twice.published if all(map(plain, (*c[1], *c[2].values()))) and plain(c[3][1])]
pickle.dump((twice.same, known), open(sys.argv[2], "wb"))
"""


@pytest.fixture(scope="module", params=sorted(LABS))
def seen(request, tmp_path_factory):
    """(the lab, {check: whether its calls were the same with two secrets}, the published calls)"""
    file = tmp_path_factory.mktemp("calls") / "calls"
    run(KEY + CALLS, LABS[request.param].file("test_lab"), file)
    return LABS[request.param], *pickle.loads(file.read_bytes())


@pytest.mark.timeout(180)  # three runs of a lab, where the test that comes first makes them
def test_every_check_draws_but_those_named_with_a_reason(seen):
    lab, same, _ = seen
    assert len(same) > 5
    fixed = {name for name, is_same in same.items() if is_same}
    fixed |= {claim.name for claim in claims_in(lab) if {"torch", "vllm"} & set(claim.marks)}
    assert fixed == set(SAME_FOR_ALL.get(lab.prefix, {}))
    assert all(SAME_FOR_ALL.get(lab.prefix, {}).values())


ANSWERS = """
TABLE = pickle.loads(zlib.decompress(base64.b85decode(PACKED)))

def answer(name):
    def function(*args, **kwargs):
        what, value = TABLE.get((name, key((args, kwargs))), ("value", None))
        if what == "raises":
            raise getattr(builtins, value)(f"{args} {kwargs}")
        return value
    return function

for name, _ in TABLE:
    globals()[name] = answer(name)
"""


def table_of(calls):
    """A file that answers these calls, and knows nothing else."""
    exec(KEY, names := {})
    table = {(name, names["key"]((args, kwargs))): outcome for name, args, kwargs, outcome in calls}
    small = {at: outcome for at, outcome in table.items() if len(pickle.dumps(outcome)) < 20_000}
    packed = base64.b85encode(zlib.compress(pickle.dumps(small)))
    return f"{KEY}\nPACKED = {packed!r}\n{ANSWERS}".encode()


@pytest.fixture(scope="module")
def grade(without_engines):
    """grade(source, lab, secret), all by one grader, whose judges are warm by then."""
    with Grader(Limits(), number=5) as grader:

        def with_secret(source, lab, secret):
            grader.secret = secret
            return grader.grade(source, lab)

        yield with_secret


@pytest.mark.isolation
@pytest.mark.timeout(180)
def test_a_table_of_all_published_answers_earns_what_is_the_same_for_all(seen, grade):
    lab, _, known = seen
    source, points = table_of(known), {}
    for secret in (None, SECRET):
        result = grade(source, lab, secret)
        assert result["status"] == "graded"
        points[secret] = {claim["name"]: claim["earned"] for claim in result["claims"]}
    assert sum(points[None].values()) > 25, "the table is none"
    forged = {name for name, earned in points[SECRET].items() if earned}
    assert forged <= SAME_FOR_ALL.get(lab.prefix, {}).keys()


@pytest.mark.isolation
@pytest.mark.timeout(120)
@pytest.mark.parametrize("prefix", ["lab-01", "lab-02", "lab-03", "lab-04"])
def test_who_is_wrong_reads_what_pytest_says_at_home(prefix, grade, tmp_path):
    """Message and hint, word for word, of every claim that is not earned."""
    lab = LABS[prefix]
    mistake = read_bank(lab).mistakes[0]
    parts = (lab.file("solution").read_text(), lab.file("mistakes").read_text())
    source = "\n\n".join([*parts, mistake.source])
    graded = grade(source.encode(), lab, SECRET)
    home = at_home(lab, source, tmp_path)
    wrong = [claim for claim in home if claim["outcome"] not in ("passed", "not_run")]
    assert wrong
    by_name = {claim["name"]: claim for claim in graded["claims"]}
    for claim in wrong:
        told = {key: claim[key] for key in ("outcome", "message", "hint")}
        assert {key: by_name[claim["name"]][key] for key in told} == told


def at_home(lab, source, folder):
    """The claims of the scoreboard, for a learner with this starter.py."""
    course = Course(folder, lab.path.relative_to(ROOT))
    course.starter.write_text(source)
    scores = folder / "scores.json"
    quick = ["-m", "not torch and not vllm"]
    course.pytest(course.lab, *quick, "--scores", scores, impl="starter")
    (entry,) = json.loads(scores.read_text())["labs"]
    return entry["claims"]


@pytest.mark.isolation
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["secret_tell_the_numbers", "secret_keep_the_numbers"])
def test_hidden_numbers_are_told_to_nobody(name, grade):
    """What a submission tells of all it saw is the same whatever the secret was."""
    case = next(case for case in read_cases() if case.name == name)
    told, scores = set(), set()
    for secret in (b"one secret, and", b"another secret"):
        result = grade(case.source(LABS[case.lab]), LABS[case.lab], 2 * secret)
        scores.add(result["score"])
        text = " ".join([result["printed"], *(claim["message"] for claim in result["claims"])])
        told.add(tuple(re.findall(r"-?\d\.\d{6,}", text)))
    assert len(told) == 1 and told.pop() and 0 < scores.pop() < 100
