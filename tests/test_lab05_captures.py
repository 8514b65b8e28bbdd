"""The captures of lab 05: whole, as recorded, and read by lab 02's reader; experts, timed."""

import json
import re
import sys

import numpy as np
import pytest

from labkit.loading import ROOT, choose_lab, find_labs, load_module
from tests.conftest import as_recorded, python
from tests.test_lab02_captures import check

LAB = choose_lab("lab-05", find_labs())
sys.path.append(str(LAB.path))  # as when a program is run in the folder

import measure_experts  # noqa: E402

CAPTURES = LAB.path / "captures"
FOLDERS = sorted(path for path in CAPTURES.iterdir() if (path / "report.json").exists())
NAMES = {f"{model}-{way}" for model in ("deepseek", "mixtral") for way in ("one", "tp", "ep", "dp")}
LEDGER = load_module(next(lab for lab in find_labs() if lab.prefix == "lab-02").file("solution"))


def log(name, rank=0):
    return LEDGER.read_startup_log((CAPTURES / name / f"rank-{rank}.log").read_text())


def report(name):
    return json.loads((CAPTURES / name / "report.json").read_text())


def test_all_recordings_are_there():
    assert {folder.name for folder in FOLDERS} == NAMES


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_capture_is_whole(folder):
    check(folder)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_path_of_the_recording_machine_is_left(folder):
    for path in folder.iterdir():
        assert not re.search(r"/(?:root|home|work|opt|usr|tmp)/", path.read_text()), path.name


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_log_says_how_experts_are_dealt_out_and_what_fits(name):
    found, ranks = log(name), report(name)["ranks"]
    (worker,) = found["ranks"]
    dealt = name.split("-")[1] in ("ep", "dp")
    facts = ("ep_rank", "ep_size", "experts_local", "experts_global")
    assert tuple(map(worker.get, facts)) == ((0, 2, 4, 8) if dealt else (None,) * 4)
    assert found["kv_tokens"] == [ranks[0]["kv_cache"]["tokens_reported"]]
    assert found["tp_size"] == (2 if name.split("-")[1] in ("tp", "ep") else 1)
    assert found["version"] == "0.32.0"


@pytest.mark.parametrize("name", ["mixtral-one", "mixtral-tp", "mixtral-ep"])
def test_lab_02_reconciles_a_mixture_it_knows(name):
    found = log(name)
    model = LEDGER.model_shape(report(name)["config"])
    block = report(name)["ranks"][0]["kv_cache"]["block_size"]
    verdict = LEDGER.reconcile(found, model, found["tp_size"], 1, block)
    assert verdict["verdict"] == "consistent"
    assert {"tp_size", "KV tokens"} <= {line["claim"] for line in verdict["lines"]}


# --- a layer's experts, timed --------------------------------------------------------------------


@pytest.mark.torch
@pytest.mark.parametrize("ep_size", [1, 8])
@pytest.mark.parametrize("tokens", [1, 7])
def test_the_ranks_that_are_timed_add_up_to_the_layer(ep_size, tokens):
    """Each rank's addend by the definition: its own slices of the experts that a token chose."""
    import torch

    shape = {"hidden_size": 16, "expert_ffn": 64, "num_experts": 32, "top_k": 3}
    ids = np.random.default_rng(2).random((tokens, 32)).argsort(axis=1)[:, :3]
    rows = 0
    for rank in range(8):
        part = measure_experts.Rank(shape, ids, rank, ep_size, "cpu", torch.float32)
        part.step()
        rows += len(part.tokens)
        held = len(part.down)
        assert (held, part.down.shape[1]) == ((32, 8) if ep_size == 1 else (4, 64))
        expected = np.zeros((tokens, 16))
        for token, chosen in enumerate(ids):
            for expert in chosen:
                local = expert - (rank * held if ep_size > 1 else 0)
                if 0 <= local < held:
                    gate, up = np.split(part.x[token].numpy() @ part.gate_up[local].numpy(), 2)
                    activation = gate / (1 + np.exp(-gate)) * up
                    expected[token] += activation @ part.down[local].numpy() / 3
        np.testing.assert_allclose(part.y, expected, atol=1e-5)  # float32, sums of 64
    assert rows == tokens * 3 * (8 if ep_size == 1 else 1)


@pytest.mark.torch
def test_experts_are_timed_beside_the_floor(tmp_path):
    program = LAB.path / "measure_experts.py"
    words = ("--model", "small", "--tokens", "2", "--out", str(tmp_path))
    done = python("-B", str(program), *words, cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "measurements.json").read_text())
    (row,) = found["rows"]
    assert f"{row['sliced_s'] / row['dealt_s']:.2f}" in done.stdout.splitlines()[-3]
    as_recorded(tmp_path)
