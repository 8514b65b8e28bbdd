"""A grade is made on numbers that nobody knows."""

import base64
import os
import pickle
import subprocess
import sys
import zlib

import pytest

from grading.grade import grade
from labkit.claims import claims_in
from labkit.loading import ROOT, find_labs

LABS = {lab.prefix: lab for lab in find_labs()}
SECRET = "5e" * 32
# Whose inputs the secret does not change, with the reason: {lab: {check: why}}.
SAME_FOR_ALL = {
    "lab-02": {
        "test_treatment__and_bytes_of_a_live_engine": "an engine's own figures",
        "test_collectives_per_step__of_a_live_engine": "an engine's own figures",
        "test_gemm_reduce_scatter_schedule__and_all_gather_run_on_gloo": "three real processes run "
        "what two other checks judge for drawn numbers of ranks",
    },
    "lab-05": {
        "test_requests_that_fit__explain_a_published_ratio": "one published ratio",
        "test_moe_step_s__orders_the_published_rows": "published measurements, which lie beside "
        "the starter",
    },
    "lab-03": {
        "test_link_bytes_per_s__one_direction": "facts about four links",
        "test_calibrate__predicts_what_was_not_measured": "published measurements, which lie "
        "beside the starter",
    },
    "lab-06": {"test_diagnose_hang__recorded_runs": "recorded runs, which lie beside the starter"},
}
BY_HEART = 15  # points of a lab's 100, at most
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
        "from grading.proxy import mix_in\n"
        "plain = np.random.Generator(np.random.PCG64(4)).random()\n"
        "def draw(): return random.Random(4).random(), np.random.default_rng([4, 2]).random()\n"
        "known = draw()\n"
        "assert np.random.default_rng(4).random() == plain and known == draw()\n"
        "mix_in(b'one')\n"
        "hidden = draw()\n"
        "assert not set(known) & set(hidden) and draw() == hidden\n"
        "mix_in(b'two')\n"
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
import random, sys
import pytest
from grading.proxy import mix_in
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
        np.random.default_rng, random.Random = usual
        if secret:
            mix_in(secret)
        item._initrequest()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        self.calls = list(item.stash[RECORDER].calls) if RECORDER in item.stash else []
        return key([call[:3] for call in self.calls])

usual, twice = (np.random.default_rng, random.Random), Twice()
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
    assert sum(claim.points for claim in claims_in(lab) if claim.name in fixed) <= BY_HEART


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


@pytest.mark.isolation
@pytest.mark.timeout(180)
def test_a_table_of_all_published_answers_earns_what_is_the_same_for_all(seen, tmp_path):
    lab, _, known = seen
    file, earned = tmp_path / "starter.py", {}
    file.write_bytes(table_of(known))
    for secret in ("", SECRET):
        claims = grade(file, lab.name, secret=secret)["claims"]
        earned[secret] = {c["name"]: c["points"] for c in claims if c["outcome"] == "passed"}
    assert sum(earned[""].values()) > 25, "the table is none"
    assert earned[SECRET].keys() <= SAME_FOR_ALL.get(lab.prefix, {}).keys()
