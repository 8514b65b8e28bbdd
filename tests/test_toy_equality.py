"""Lab 02's Torch package: outputs, gradients and an SGD step equal the unsharded model's."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

LAB = next((Path(__file__).resolve().parent.parent).glob("phase-10*/labs/lab-02-*"))
sys.path.insert(0, str(LAB))
sys.path.insert(1, str(Path(__file__).resolve().parent))  # the ranks import toy_workers

from tensor_parallel_toy.launch import launch  # noqa: E402

ON_LINUX = sys.platform == "linux"
LINUX_ONLY = pytest.mark.skipif(not ON_LINUX, reason="shared memory and policies are Linux's")
pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

WORK = {  # ranks -> name -> a function of toy_workers, over this link
    2: {
        "one rank": ("each_alone", "auto"),
        "backwards": ("two_backwards", "auto"),
        "other uses": ("other_uses", "auto"),
        "mistakes": ("kill_table", "auto"),
        "refusals": ("refusals", "auto"),
    },
    4: {"equality": ("check", "auto"), "grouped": ("over_grouped_messages", "auto")},
}
ON_LINUX_TOO = {
    2: {
        "policies": ("policies_of_gloos_thread", "auto"),
        "bits": ("same_bits_over_shared_memory", "shm"),
        "arena": ("arena_after_many_steps", "shm"),
        "two hosts": ("refused_on_two_hosts", "auto"),
    },
    4: {
        "bits": ("same_bits_over_shared_memory", "shm"),
        "equality over shm": ("check", "shm"),
    },
}


@functools.cache
def launched(num_ranks):
    functions = (ON_LINUX_TOO[num_ranks] if ON_LINUX else {}) | WORK[num_ranks]
    options = {"functions": functions}
    return launch("toy_workers:one_after_the_other", num_ranks, options, 60, 280)


def returned(num_ranks, name):
    """What each rank's function returned; all of WORK runs in one launch for each size."""
    return [rank[name] for rank in launched(num_ranks)]


def right_rows(ranks):
    rows = ranks[0]
    assert all(rank == rows for rank in ranks)
    modes = {"plain", "sequential", "overlap", "overlap, 2 pieces"}
    assert {row["mode"] for row in rows} == modes
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


@LINUX_ONLY
def test_gradients_over_shared_memory_equal_the_unsharded_model():
    """The whole equality suite on four ranks, sub-groups too."""
    assert len(right_rows(returned(4, "equality over shm"))) == 10


@LINUX_ONLY
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_shared_memory_gives_the_bits_that_gloo_gives(num_ranks):
    """Every dtype and order, the gathered input kept or not; no slot of the arena stays taken."""
    for differ, users, top in returned(num_ranks, "bits"):
        assert differ == []
        assert users == 0 and top > 0


@LINUX_ONLY
def test_slots_of_the_arena_are_used_again():
    for early, late in returned(2, "arena"):
        assert 0 < early and late <= 2 * early  # 30 steps need about what 3 steps need


def test_messages_paired_as_nccl_needs_them_give_the_same_gradients():
    """No GPU here: NcclLink's grouping of sends with receives runs on gloo."""
    for worst in returned(4, "grouped"):
        assert len(worst) == 3
        assert max(worst) <= 1e-12  # float64, as in equality.TOLERANCE


def test_gradients_add_up_and_frozen_or_computed_weights_are_treated_right():
    for right in returned(2, "backwards"):
        assert right == [True, True, True]


def test_gradients_in_other_uses_than_plain_training():
    """Activation checkpoints, several models, after a backward that raised, bfloat16."""
    for right in returned(2, "other uses"):
        assert len(right) == 5 and all(right.values()), right


@LINUX_ONLY
def test_gloos_thread_waits_for_its_turn_unless_told_otherwise():
    for policies in returned(2, "policies"):
        assert policies == ["batch", "other", "batch"]


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


@LINUX_ONLY
def test_shared_memory_is_refused_to_ranks_of_two_hosts():
    for rank, said in enumerate(returned(2, "two hosts")):
        other = 1 - rank
        assert said == f"link shm is for ranks of one host, and rank {other} is on another"


def test_the_command_runs_from_the_labs_folder_and_under_torchrun():
    command = [
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),  # a free port
        *("-m", "tensor_parallel_toy", "test", "--ranks", "2"),
    ]
    ran = subprocess.run(
        [sys.executable, *command], cwd=LAB, capture_output=True, text=True, timeout=170
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "8 cases, 0 wrong" in ran.stdout
