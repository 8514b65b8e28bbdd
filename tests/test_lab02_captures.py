"""The captures of lab 02: whole, as recorded, and nothing of the recording machine in them."""

import json
import re
from pathlib import Path

import pytest

from labkit.loading import find_labs, load_module
from tests.conftest import as_recorded

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")
FOLDERS = sorted(path for path in (LAB.path / "captures").iterdir() if path.is_dir())
PROVENANCE = {
    "what": str,
    "command": (str, type(None)),
    "date": str,
    "versions": dict,
    "hardware": (str, dict),
    "git_commit": (str, type(None)),
    "sha256": dict,
}


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


OURS = [folder for folder in FOLDERS if (folder / "report.json").exists()]
RECORDED = [folder for folder in OURS if "config" in report_of(folder)]
solution = load_module(LAB.file("solution"))


def check(folder: Path):
    """Raises AssertionError unless the folder holds exactly what its provenance says."""
    provenance = as_recorded(folder)
    for name, kind in PROVENANCE.items():
        assert isinstance(provenance.get(name, ...), kind), f"{folder.name}: {name}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?", provenance["date"])
    if not provenance.get("quoted"):
        assert provenance["command"] and re.fullmatch("[0-9a-f]{40}", str(provenance["git_commit"]))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_capture_is_whole(folder):
    check(folder)


def test_all_recordings_of_the_lab_are_there():
    names = {folder.name for folder in RECORDED}
    assert {"tp1", "tp2", "tp2-replicated-kv", "pp2", "tp2-engine", "tp2-two-hosts"} <= names


@pytest.mark.parametrize("damage", ["changed", "added", "removed", "unsigned"])
def test_a_damaged_capture_is_noticed(tmp_path, damage):
    source = LAB.path / "captures" / "tp1"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    check(tmp_path)
    if damage == "changed":
        log = (tmp_path / "rank-0.log").read_text()
        (tmp_path / "rank-0.log").write_text(log.replace("16", "17", 1) + " ")
    elif damage == "added":
        (tmp_path / "rank-1.log").write_text("INFO")
    elif damage == "removed":
        (tmp_path / "rank-0.log").unlink()
    else:
        provenance = json.loads((tmp_path / "provenance.json").read_text())
        (tmp_path / "provenance.json").write_text(json.dumps(provenance | {"git_commit": None}))
    with pytest.raises((AssertionError, FileNotFoundError)):
        check(tmp_path)


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_residual_of_live_shapes_is_zero(folder):
    report = report_of(folder)
    model, sizes = solution.model_shape(report["config"]), (report["tp_size"], report["pp_size"])
    tp_size, pp_size = sizes
    assert [rank["rank"] for rank in report["ranks"]] == list(range(tp_size * pp_size))
    for rank in report["ranks"]:
        stage = rank["rank"] // tp_size
        held = sum(parameter["bytes"] for parameter in rank["parameters"].values())
        ledger = solution.rank_weights(model, tp_size, pp_size, stage)
        assert held - ledger["parameters_bytes"] == 0
        cache = rank["kv_cache"]
        per_token = solution.kv_bytes_per_token(model, tp_size, pp_size, stage)
        assert cache["page_bytes_per_layer"] * cache["layers"] == per_token * cache["block_size"]
        if folder.name != "tp1-gpu-8b":  # there the engine measures what is left
            planned = solution.kv_capacity(8 * 2**20, per_token, cache["block_size"], 64)
            assert cache["blocks"] == planned["blocks"]


def test_on_a_gpu_the_engine_says_what_the_ledger_says():
    """All as printed: memory of weights to a tenth of a GiB, of the cache to a hundredth."""
    folder = LAB.path / "captures" / "tp1-gpu-8b"
    report = report_of(folder)
    log = solution.read_startup_log((folder / "rank-0.log").read_text())
    model = solution.model_shape(report["config"])
    (worker,) = log["ranks"]
    weights = solution.rank_weights(model, 1)["total_bytes"] / solution.GIB
    assert abs(worker["weights_gib"] - weights) <= 0.05
    per_token = solution.kv_bytes_per_token(model, 1)
    cache = worker["kv_memory_gib"] * solution.GIB
    planned = solution.kv_capacity(cache, per_token, 16, log["max_model_len"])
    slack = 0.005 * solution.GIB / per_token + 16
    assert abs(log["kv_tokens"][0] - planned["tokens"]) <= slack
    assert report["ranks"][0]["kv_cache"]["blocks"] * 16 == log["kv_tokens"][0]


def test_capacity_doubles_unless_kv_heads_are_copied():
    names = ("tp1", "tp2", "tp2-replicated-kv", "pp2")
    reports = {name: report_of(LAB.path / "captures" / name) for name in names}
    blocks = {name: one["ranks"][0]["kv_cache"]["blocks"] for name, one in reports.items()}
    model = solution.model_shape(reports["tp2-replicated-kv"]["config"])
    alone = solution.kv_capacity(8 * 2**20, solution.kv_bytes_per_token(model, 1), 128, 64)
    assert blocks["tp2"] == blocks["pp2"] == 2 * blocks["tp1"]
    assert blocks["tp2-replicated-kv"] == alone["blocks"]


def test_all_recorded_splits_of_the_same_model_say_the_same_tokens():
    told = {
        folder.name: report_of(folder)["ranks"][0]["tokens"]
        for folder in RECORDED
        if folder.name in ("tp1", "tp2", "tp2-engine", "pp2", "tp2-two-hosts")
    }
    assert len(told) == 5 and len({tuple(tokens) for tokens in told.values()}) == 1
    assert len(next(iter(told.values()))) == 16


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_no_path_of_the_recording_machine_is_left(folder):
    for path in folder.iterdir():
        text = path.read_text()
        assert not re.search(r"/(?:root|home|work|opt|usr)/", text), path.name
