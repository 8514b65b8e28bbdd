"""Lab 02's Torch package: outputs, gradients and an SGD step equal the unsharded model's."""

import subprocess
import sys
from pathlib import Path

import pytest

LAB = next((Path(__file__).resolve().parent.parent).glob("phase-10*/labs/lab-02-*"))
sys.path.insert(0, str(LAB))
sys.path.insert(1, str(Path(__file__).resolve().parent))  # the ranks import toy_workers

from tensor_parallel_toy.launch import launch  # noqa: E402

SHARED_MEMORY = pytest.mark.skipif(sys.platform != "linux", reason="--link shm is Linux's")
pytestmark = [pytest.mark.torch, pytest.mark.timeout(180)]


@pytest.mark.parametrize("num_ranks", [1, 4])  # 2: below, under torchrun
def test_gradients_of_every_parameter_equal_the_unsharded_model(num_ranks):
    """Plain, sequential, overlapped; with and without bias; grouped KV heads; a sub-group."""
    results = launch("tensor_parallel_toy.equality:check", num_ranks, timeout_s=60, limit_s=170)
    assert all(result == results[0] for result in results)
    rows = results[0]
    assert {row["mode"] for row in rows} == {
        "plain",
        "sequential",
        "overlap",
        "overlap, 2 pieces",
    }
    assert {row["bias"] for row in rows} == {True, False}
    assert len({row["kv_heads"] for row in rows}) == 2
    if num_ranks == 4:
        assert [1, 3] in [row["group"] for row in rows]
    wrong = [row for row in rows if not row["ok"]]
    assert not wrong


@SHARED_MEMORY
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_shared_memory_gives_the_bits_that_gloo_gives(num_ranks):
    """Every dtype and order, the gathered input kept or not; no slot of the arena stays taken."""
    target = "toy_workers:same_bits_over_shared_memory"
    for differ, users, top in launch(target, num_ranks, {"link": "shm"}, 60, 170):
        assert differ == []
        assert users == 0 and top > 0


@SHARED_MEMORY
def test_gradients_over_shared_memory_equal_the_unsharded_model():
    """The whole equality suite on four ranks, sub-groups too."""
    options = {"link": "shm"}
    rows = launch("tensor_parallel_toy.equality:check", 4, options, 60, 170)[0]
    assert len(rows) == 10
    assert [row for row in rows if not row["ok"]] == []


@SHARED_MEMORY
def test_slots_of_the_arena_are_used_again():
    for early, late in launch("toy_workers:arena_after_many_steps", 2, {"link": "shm"}, 60, 170):
        assert 0 < early and late <= 2 * early  # 30 steps need about what 3 steps need


def test_messages_paired_as_nccl_needs_them_give_the_same_gradients():
    """No GPU here: NcclLink's grouping of sends with receives runs on gloo."""
    for worst in launch("toy_workers:over_grouped_messages", 4, timeout_s=60, limit_s=170):
        assert len(worst) == 3
        assert max(worst) <= 1e-12  # float64, as in equality.TOLERANCE


def test_gradients_add_up_and_frozen_or_computed_weights_are_treated_right():
    for right in launch("toy_workers:two_backwards", 2, timeout_s=60, limit_s=170):
        assert right == [True, True, True]


def test_gradients_in_other_uses_than_plain_training():
    """Activation checkpoints, several models, after a backward that raised, bfloat16."""
    for right in launch("toy_workers:other_uses", 2, timeout_s=20, limit_s=170):
        assert [use for use, is_right in right.items() if not is_right] == []


@pytest.mark.skipif(sys.platform != "linux", reason="scheduling policies are Linux's")
def test_gloos_thread_waits_for_its_turn_unless_told_otherwise():
    for policies in launch("toy_workers:policies_of_gloos_thread", 2, timeout_s=60, limit_s=170):
        assert policies == ["batch", "other", "batch"]


def test_the_bank_of_mistakes_is_rejected():
    """Each mistake fails the comparison that should notice it; the right code passes."""
    result = launch("tensor_parallel_toy.mistakes:kill_table", 2, timeout_s=60, limit_s=170)[0]
    assert len(result["rows"]) >= 10
    survivors = [row for row in result["rows"] if row["expected"] not in row["rejected_by"]]
    assert not survivors
    assert result["ok"]


def test_the_command_runs_from_the_labs_folder_and_under_torchrun():
    command = [
        *("-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "tensor_parallel_toy"),
        *("test", "--ranks", "2"),
    ]
    ran = subprocess.run(
        [sys.executable, *command], cwd=LAB, capture_output=True, text=True, timeout=170
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "8 cases, 0 wrong" in ran.stdout
