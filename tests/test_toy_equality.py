"""Lab 02's Torch package: outputs, gradients and an SGD step equal the unsharded model's."""

import functools
import os
import shutil
import sys
from pathlib import Path

import pytest

LAB = next((Path(__file__).resolve().parent.parent).glob("phase-10*/labs/lab-02-*"))
sys.path.insert(0, str(LAB))
sys.path.insert(1, str(Path(__file__).resolve().parent))  # the ranks import toy_workers

from tensor_parallel_toy.launch import launch  # noqa: E402

from tests.conftest import python  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

TEST = ("-m", "tensor_parallel_toy", "test", "--ranks", "2")
WORK = {  # ranks -> name -> a function of toy_workers, and its link
    2: {
        "one rank": ("each_alone", "auto"),
        "backwards": ("two_backwards", "auto"),
        "other uses": ("other_uses", "auto"),
        "mistakes": ("kill_table", "auto"),
        "refusals": ("refusals", "auto"),
    },
    4: {"equality": ("check", "auto"), "grouped": ("over_grouped_messages", "auto")},
}


@functools.cache
def launched(num_ranks):
    options = {"functions": WORK[num_ranks]}
    return launch("toy_workers:one_after_the_other", num_ranks, options, 60, 280)


def returned(num_ranks, name):
    """What each rank's function returned; all of WORK runs in one launch for each size."""
    return [rank[name] for rank in launched(num_ranks)]


def right_rows(ranks):
    rows = ranks[0]
    assert all(rank == rows for rank in ranks)
    assert {row["mode"] for row in rows} == {"plain", "sequential", "overlap"}
    assert {row["bias"] for row in rows} == {True, False}
    assert len({row["kv_heads"] for row in rows}) == 2
    assert [row for row in rows if not row["ok"]] == []
    return rows


def test_gradients_of_every_parameter_equal_the_unsharded_model():
    """Plain, sequential, overlapped; with and without bias; grouped KV heads; a sub-group."""
    assert [1, 3] in [row["group"] for row in right_rows(returned(4, "equality"))]


def test_one_rank_alone_equals_the_unsharded_model():
    """Two of them, each in a group of its own; two ranks together: below, under torchrun."""
    assert {len(row["group"]) for row in right_rows(returned(2, "one rank"))} == {1}


def test_messages_paired_as_nccl_needs_them_give_the_same_gradients():
    """No GPU here: NcclLink's grouping of sends with receives runs on gloo."""
    for worst in returned(4, "grouped"):
        assert len(worst) == 2
        assert max(worst) <= 1e-12  # float64, as in equality.TOLERANCE


def test_gradients_add_up_and_frozen_or_computed_weights_are_treated_right():
    for right in returned(2, "backwards"):
        assert right == [True, True, True]


def test_gradients_in_other_uses_than_plain_training():
    """Activation checkpoints, several models, after a backward that raised, bfloat16."""
    for right in returned(2, "other uses"):
        assert len(right) == 5 and all(right.values()), right


def test_the_bank_of_mistakes_is_rejected():
    """Each mistake fails the comparison that should notice it; the right code passes."""
    result = returned(2, "mistakes")[0]
    assert len(result["rows"]) >= 10
    survivors = [row for row in result["rows"] if row["expected"] not in row["rejected_by"]]
    assert not survivors
    assert result["ok"]


REFUSED = {  # what both ranks do -> what rank 0 and rank 1 must say
    "other_layer": ("is at column layer", "is at row layer"),
    "other_shape": ("is at column layer [2, 1, 8]", "is at column layer [3, 1, 8]"),
    "split_unevenly": ("5 positions cannot be", "5 positions cannot be"),
    "weight_split_unevenly": ("size 7 of a layer", "size 7 of a layer"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_all_ranks_refuse_is_said_on_each(what):
    for said, expected in zip(returned(2, "refusals"), REFUSED[what], strict=True):
        assert said[what].startswith(expected)


def test_the_command_runs_from_the_labs_folder_and_under_torchrun():
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")  # free port
    ran = python(*torchrun, *TEST, cwd=LAB, timeout=170)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.startswith("by the reference, solution.py of lab 02")
    assert "6 cases, 0 wrong" in ran.stdout


def test_the_learners_schedules_drive_the_layers(tmp_path):
    """A starter whose order is right but not overlapped runs; a wrong one is refused beforehand."""
    lab = tmp_path / "lab-02-two-way-tp"
    ignored = shutil.ignore_patterns("captures", "__pycache__")
    shutil.copytree(LAB, lab, ignore=ignored)
    text = (LAB / "solution.py").read_text()
    marked = text.replace(
        "    ahead = [(rank + distance)",
        "    print('mine', rank, flush=True)\n    ahead = [(rank + distance)",
    )
    spoilt = text.replace('[["wait_send", "x", rank, peer] for peer in ahead]', "[]")
    assert marked != text != spoilt
    path = os.pathsep.join([str(LAB.parents[2]), str(LAB.parent)])
    options = {"cwd": lab, "timeout": 120, "LAB_IMPL": "starter", "PYTHONPATH": path}
    (lab / "starter.py").write_text(marked)
    ran = python(*TEST, **options)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("by your starter.py of lab 02")
    assert ran.stdout.count("mine 0") > 10  # in the ranks, not only where it is looked at before
    (lab / "starter.py").write_text(spoilt)
    ran = python(*TEST, **options)
    assert ran.returncode == 1 and "returns without wait_send of x[" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
