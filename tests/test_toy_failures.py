"""Lab 02's Torch package when something goes wrong: one sentence per rank, nothing left behind."""

import sys
import tempfile
import time
from pathlib import Path

import pytest

LAB = next((Path(__file__).resolve().parent.parent).glob("phase-10*/labs/lab-02-*"))
sys.path.insert(0, str(LAB))
sys.path.insert(1, str(Path(__file__).resolve().parent))  # the ranks import toy_workers

from tensor_parallel_toy.config import ModelConfig  # noqa: E402
from tensor_parallel_toy.launch import launch  # noqa: E402

from labkit.ranks import RanksFailed  # noqa: E402
from tests.conftest import python  # noqa: E402

TIMEOUT_S = 2

# What rank 0 and rank 1 must say. What both refuse alike: test_toy_equality.py, in one launch.
FAILURES = {
    "one_call_more": ("rank 0: waited 2 s for the other ranks", "rank 1: did not end by itself"),
    "one_dies": ("rank 0: lost the connection", "rank 1: died of signal 9"),
    "one_raises": ("rank 0: rank 1 did not come to", "rank 1: this rank cannot go on"),
}


@pytest.mark.torch
@pytest.mark.timeout(90)
@pytest.mark.parametrize("failure", FAILURES)
def test_each_rank_says_one_sentence_within_the_timeout_and_leaves_nothing(
    failure, monkeypatch, tmp_path
):
    """Ranks that were killed, or stopped, have left no file and no named segment."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests launch ranks, too
    folders = [folder for folder in (Path("/dev/shm"), tmp_path) if folder.exists()]
    before = [set(folder.iterdir()) for folder in folders]
    start = time.monotonic()
    with pytest.raises(RanksFailed) as failed:
        launch(f"toy_workers:{failure}", 2, timeout_s=TIMEOUT_S, limit_s=60)
    # starting Python and Torch, one timeout, and the grace that the other ranks get
    assert time.monotonic() - start < 40 + 2 * TIMEOUT_S + 5
    lines = str(failed.value).splitlines()
    assert len(lines) == 2
    for line, words in zip(lines, FAILURES[failure], strict=True):
        assert line.startswith(words)
    for folder, known in zip(folders, before, strict=True):
        mine = [p for p in set(folder.iterdir()) - known if "toy" in p.name]
        assert mine == []


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"num_heads": 6, "num_kv_heads": 6, "hidden_size": 48}, ["num_heads", "6", "4"]),
        ({"num_kv_heads": 2}, ["num_kv_heads", "2", "4"]),
        ({"ffn_size": 50}, ["ffn_size", "50", "4"]),
        ({"seq_len": 30}, ["seq_len", "30", "4"]),
        ({"num_kv_heads": 3}, ["num_heads", "multiple"]),
        ({"batch_size": 0}, ["batch_size", "at least 1"]),
        ({"hidden_size": 100}, ["hidden_size", "100"]),
    ],
)
def test_a_size_that_does_not_divide_is_named(sizes, words):
    with pytest.raises(ValueError) as refused:
        ModelConfig(**sizes).check(4)
    assert all(word in str(refused.value) for word in words)
    assert "\n" not in str(refused.value)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--ranks", "3"],
            "num_heads 8 cannot be split over 3 ranks: choose a multiple of 3, or fewer ranks",
        ),
        (["--steps", "0"], "--timeout must be above 0 and --steps at least 1"),
        (["--timeout", "0"], "--timeout must be above 0 and --steps at least 1"),
    ],
)
def test_the_command_line_refuses_in_one_line(options, says):
    ran = python("-m", "tensor_parallel_toy", "profile", *options, cwd=LAB)
    assert ran.returncode == 1
    assert ran.stderr.strip() == says


def test_started_as_a_file_it_says_how_to_start_it():
    ran = python("tensor_parallel_toy", "test", cwd=LAB)
    assert "from lab 02's folder as a module: python -m tensor_parallel_toy test" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.torch
@pytest.mark.parametrize("link", ["simulated:0gbit", "simulated:1.2.3gbit", "slow"])
def test_a_link_that_does_not_exist_is_refused(link):
    from tensor_parallel_toy.group import make_link

    with pytest.raises(ValueError, match="neither 'auto' nor like 'simulated:1gbit'"):
        make_link(link, None)
