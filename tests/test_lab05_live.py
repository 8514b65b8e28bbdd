"""Lab 05's live vLLM: what it must show, that its patches are needed, and that nothing is left.

Without vLLM the page is made from the captures; the tests marked `vllm` say `make vllm` there.
"""

import contextlib
import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from labkit.loading import ROOT, find_labs, load_module
from tests.conftest import processes_of, python

LABS = ROOT / "phase-10-distributed-inference" / "labs"
LAB = LABS / "lab-05-experts"
sys.path.append(str(LAB))  # as `python experts.py` finds its own folder
import experts  # noqa: E402
import ways  # noqa: E402
from live import run  # noqa: E402

LEDGER = load_module(next(lab for lab in find_labs() if lab.prefix == "lab-02").file("solution"))
LEARNER = load_module(LAB / "solution.py")
SHARED_MEMORY = Path("/dev/shm")
LIMIT_S = 240  # of one launch; 12 s for all eight on two quiet cores


def page(model, runs):
    return experts.page(ways.MODELS[model](), runs, LEDGER, LEARNER)


# --- the page, from the captures -----------------------------------------------------------------


@pytest.mark.parametrize("model", ways.MODELS)
def test_the_page_of_the_captures_agrees(model):
    lines, agrees = page(model, experts.captured(model))
    assert agrees and len(lines) <= 50
    assert max(map(len, lines)) <= 103


def other_token(runs):
    runs["dp"]["reports"][1]["tokens"][0][-1] += 1


def heavier_rank(runs):
    runs["ep"]["reports"][1]["parameters"]["model.norm.weight"]["bytes"] += 4


def expert_elsewhere(runs):
    for held in runs["ep"]["reports"][0]["experts"].values():
        held[-1] += 1


def smaller_cache(runs):
    runs["tp"]["reports"][1]["kv_cache"]["tokens_reported"] -= 16


def one_all_reduce_more(runs):
    runs["ep"]["reports"][0]["steps"][1]["all_reduce"][0] += 1


def one_byte_more(runs):
    runs["dp"]["reports"][0]["steps"][-1]["all_gatherv"][1] += 1


def no_reduce_scatter(runs):
    del runs["dp"]["reports"][1]["steps"][0]["reduce_scatterv"]


def fewer_dummies(runs):
    runs["dp"]["reports"][1]["dummy_steps"] -= 1


def log_of_another_split(runs):
    log = runs["ep"]["logs"][0]
    runs["ep"]["logs"][0] = log.replace("number of experts: 4/8", "number of experts: 8/8")


TAMPERING = [
    other_token,
    heavier_rank,
    expert_elsewhere,
    smaller_cache,
    one_all_reduce_more,
    one_byte_more,
    no_reduce_scatter,
    fewer_dummies,
    log_of_another_split,
]


@pytest.mark.parametrize("model", ways.MODELS)
@pytest.mark.parametrize("tamper", TAMPERING, ids=lambda tamper: tamper.__name__)
def test_whatever_differs_is_seen(model, tamper):
    runs = copy.deepcopy(experts.captured(model))
    tamper(runs)
    lines, agrees = page(model, runs)
    assert not agrees
    assert sum(line.startswith("  NO ") for line in lines) == 1


WRONG = {  # a function of the learner's -> (how it is wrong, what its row is about)
    "place_in_order": (lambda n, p: [e % p for e in range(n)], "dealt out, rank 0"),
    "traffic_bytes": (lambda *_: (1, 1), "tokens, bytes"),
    "cache_bytes_per_token": (lambda *_: 4, "one rank"),
    "steps_of_lockstep": (lambda work, _: (max(work), [0, 0]), "rank 1"),
}


@pytest.mark.parametrize("function", WRONG)
def test_a_wrong_function_is_named_and_an_unwritten_one_leaves_its_column_empty(function):
    wrong, what = WRONG[function]
    runs, learner = experts.captured("mixtral"), dict(vars(LEARNER))
    changed = types.SimpleNamespace(**learner | {function: wrong})
    lines, agrees = experts.page(ways.MODELS["mixtral"](), runs, LEDGER, changed)
    told = [line for line in lines if line.startswith(f"       {function}")]
    assert not agrees and len(told) == 1 and what in told[0] and "yours" in told[0]

    def unwritten(*_):
        raise NotImplementedError(f"lab-05 · {function} is yours to write (about 2 lines).")

    changed = types.SimpleNamespace(**learner | {function: unwritten})
    lines, agrees = experts.page(ways.MODELS["mixtral"](), runs, LEDGER, changed)
    assert agrees and f"not written yet: {function}" in lines


def test_the_bill_is_that_of_the_book_and_needs_no_vllm():
    ran = python(LAB / "experts.py", "--bill", "97", LAB_VLLM_PYTHON="none", LAB_IMPL="solution")
    steps = [float(ms) for ms in re.findall(r"([\d.]+) ms", ran.stdout)]
    assert ran.returncode == 0 and "7.67 times TP's requests" in ran.stdout
    assert steps[0] < steps[2] > steps[3] and len(steps) == 4
    assert "from 98 tokens on, with equal loads from 69" in ran.stdout
    refused = python(LAB / "experts.py", "--bill", "-3")
    assert refused.returncode == 2 and "give 0 tokens or more" in refused.stderr


def test_no_vllm_is_one_sentence():
    ran = python(LAB / "experts.py", LAB_VLLM_PYTHON="/nowhere/python")
    assert ran.returncode != 0 and ran.stdout.count("\n") == 1  # whose functions would answer
    assert ran.stderr.count("\n") == 1 and "LAB_VLLM_PYTHON=/nowhere/python" in ran.stderr


# --- live ----------------------------------------------------------------------------------------


@pytest.fixture
def nothing_left(tmp_path):
    """After the test: no shared memory of any run, no process with a log in its folder, no port."""

    def left():
        return set(SHARED_MEMORY.glob("lab*")) - before | processes_of(tmp_path)

    before = set(SHARED_MEMORY.iterdir())
    yield
    deadline = time.monotonic() + 5
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left() == set()


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
def test_make_experts_prints_a_page_of_each_model_that_agrees(
    nothing_left, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    measured = tmp_path / "measured.json"
    status = experts.main(["--json", str(measured)])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert printed.startswith("by the reference, solution.py of labs 02, 05")
    assert printed.count("\n  yes") == 6 and "NO " not in printed
    measured = json.loads(measured.read_text())
    cache = {
        (model, way): [rank["kv_cache"]["tokens_reported"] for rank in runs["reports"]]
        for model, ways_of in measured.items()
        for way, runs in ways_of.items()
    }
    one, many = cache["deepseek", "one"][0], cache["mixtral", "one"][0]
    assert cache["deepseek", "tp"] == cache["deepseek", "dp"] == [one, one]  # a latent is copied
    assert cache["mixtral", "tp"] == [2 * many] * 2 and cache["mixtral", "dp"] == [many] * 2
    for runs in measured.values():  # different enough for equality to say something
        for tokens in ways.tokens_of(runs["one"]["reports"]):
            assert len(set(tokens)) > len(tokens) / 2


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize(("patch", "way"), [("only_mine", "ep"), ("unequal_parts", "dp")])
def test_each_patch_is_still_needed(patch, way, tmp_path, nothing_left):
    """Fails on the day that vLLM runs without the patch: then delete it."""
    with contextlib.suppress(run.LiveError):  # it crashes, or reads what is not there
        found = ways.start([("mixtral", way)], tmp_path, without=[patch])["mixtral", way]
        right = ways.tokens_of(experts.captured("mixtral")["one"]["reports"])
        needless = f"vLLM runs without `{patch}`: delete it from live/cpu_experts.py"
        assert ways.tokens_of(found["reports"]) != right, needless


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_killed_data_parallel_rank_ends_the_run_with_a_clear_error(
    tmp_path, nothing_left, kill_rank_1
):
    with pytest.raises(run.LiveError, match=r"rank 1: died of signal 9 \(SIGKILL\)"):
        ways.start([("mixtral", "dp")], tmp_path, on_start=kill_rank_1)


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize("way", ["SIGINT", "SIGKILL"])
def test_an_interrupted_run_leaves_nothing(way, tmp_path, nothing_left):
    command = [sys.executable, str(LAB / "experts.py"), "--model", "mixtral"]
    environment = os.environ | {"TMPDIR": str(tmp_path), "LAB_IMPL": "solution"}
    with (tmp_path / "printed").open("w") as out:
        program = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
    while not list(tmp_path.glob("experts-*/rank-6.log")):
        assert program.poll() is None, (tmp_path / "printed").read_text()
        time.sleep(0.05)
    program.send_signal(getattr(signal, way))
    assert program.wait(timeout=20) != 0
    if way == "SIGINT":
        assert not list(tmp_path.glob("experts-*"))
