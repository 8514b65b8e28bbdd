"""Lab 02's profile: what it measures, prints and writes, and what its recorded runs say."""

import json
import math
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.conftest import as_recorded, python

LAB = next((Path(__file__).resolve().parent.parent).glob("phase-10*/labs/lab-02-*"))
sys.path.insert(0, str(LAB))

from tensor_parallel_toy import figures  # noqa: E402

CAPTURES = sorted((LAB / "captures").glob("toy-*"))
FILES = {"profile.json", "timeline.json", "curves.svg", "timeline.svg", "trace.json"}
TINY = (
    "--hidden-size 64 --num-layers 2 --ffn-size 96 --seq-len 32 --batch-size 2 --num-heads 4 "
    "--num-kv-heads 2 --vocab-size 32 --steps 2"
)


def run_profile(folder, *options):
    words = ("-m", "tensor_parallel_toy", "profile", *TINY.split(), *options, "--out", folder)
    return python(*words, cwd=LAB, timeout=110)


def profile(folder, *options):
    ran = run_profile(folder, *options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def message_bytes(config, ranks):
    """What one rank sends in a step over point-to-point links: ten shards per layer and peer."""
    shard = config["seq_len"] // ranks * config["batch_size"] * config["hidden_size"] * 4
    return config["num_layers"] * 10 * (ranks - 1) * shard


def check_folder(folder):
    """Files and hashes, valid SVG and trace, coinciding losses; returns the profile."""
    assert set(as_recorded(folder)["sha256"]) == FILES
    for name in ("curves.svg", "timeline.svg"):
        assert ElementTree.parse(folder / name).getroot().tag.endswith("svg")
    result = json.loads((folder / "profile.json").read_text())
    modes, ranks = result["modes"], result["ranks"]
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in spans} == set(range(ranks))
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in spans)
    named = {event["name"].split()[0] for event in spans if event["cat"] == "user_annotation"}
    assert {"gemm", "send", "wait", "post_recv", "add", "wait_send"} <= named
    assert result["losses_coincide"]
    for name, mode in modes.items():
        assert mode["loss"][-1] < mode["loss"][0]
        assert all(norm > 0 and math.isfinite(norm) for norm in mode["gradient_norm"])
        low, high = mode["spread_s"]
        assert 0 < low <= mode["median_step_s"] <= high
        if name in ("plain", "sequential", "overlap"):
            whole = modes["no TP"]["saved_bytes"][0]
            assert [size * ranks for size in mode["saved_bytes"]] == [whole] * ranks
        if name in ("sequential", "overlap"):
            assert mode["sent_bytes"] == [message_bytes(result["config"], ranks)] * ranks
    return result


@pytest.mark.torch
@pytest.mark.timeout(120)
def test_profile_trains_all_modes_alike_and_says_it_in_three_lines(tmp_path):
    printed = profile(tmp_path / "out", "--details").splitlines()
    result = check_folder(tmp_path / "out")
    assert [*result["modes"]] == ["no TP", "plain", "sequential", "overlap", "DTensor"]
    assert printed[0].startswith("by the reference, solution.py of lab 02")
    assert [line.split()[0] for line in printed[2:5]] == ["sequential", "overlap", "bound"]
    for name, line in zip(("sequential", "overlap"), printed[2:4], strict=True):
        assert f"{1e3 * result['modes'][name]['median_step_s']:.0f} ms" in line
    table = "\n".join(printed[6:])
    assert all(f"\n{name} " in table for name in result["modes"])
    assert "overlap takes" in printed[5]


@pytest.mark.torch
@pytest.mark.timeout(120)
def test_a_simulated_link_says_so_and_slows_the_messages_down(tmp_path):
    printed = profile(tmp_path / "out", "--link", "simulated:20mbit")
    result = check_folder(tmp_path / "out")
    assert result["link"] == "simulated 0.02 Gbit/s"
    assert "no plain and no DTensor" in printed and "--details" in printed
    assert [*result["modes"]] == ["no TP", "sequential", "overlap"]
    sent = result["modes"]["sequential"]["sent_bytes"][0]
    # a lower limit only: the link cannot be faster than it says, the machine may be slower
    assert result["modes"]["sequential"]["median_step_s"] >= sent * 8 / 20e6


@pytest.mark.torch
def test_one_rank_is_told_that_there_is_nothing_to_profile(tmp_path):
    ran = run_profile(tmp_path / "out", "--ranks", "1")
    assert ran.returncode == 1
    words = "rank 0: one rank has nobody to talk to: profile with 2 ranks or more"
    assert ran.stderr.strip() == words
    assert not (tmp_path / "out").exists()


def test_axes_are_marked_at_round_numbers():
    for least, step in ((1, 1), (1.1, 2), (3, 5), (7, 10), (0.03, 0.05), (180, 200)):
        assert figures.round_step(least) == pytest.approx(step)


def test_there_is_a_recording_where_overlap_pays_and_one_where_it_cannot():
    gain = {}
    for folder in CAPTURES:
        modes = check_folder(folder)["modes"]
        steps = [modes[name]["median_step_s"] for name in ("sequential", "overlap")]
        gain[folder.name] = 1 - steps[1] / steps[0]
    assert set(gain) == {"toy-simulated-1gbit", "toy-loopback"}
    assert gain["toy-simulated-1gbit"] > 0.1
    assert gain["toy-loopback"] < 0.6 * gain["toy-simulated-1gbit"]
