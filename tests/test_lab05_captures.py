"""The captures of lab 05: whole, as recorded, and read by lab 02's reader."""

import json
import re

import pytest

from labkit.loading import ROOT, find_labs, load_module
from tests.test_lab02_captures import check

CAPTURES = ROOT / "phase-10-distributed-inference" / "labs" / "lab-05-experts" / "captures"
FOLDERS = sorted(path for path in CAPTURES.iterdir() if path.is_dir())
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
