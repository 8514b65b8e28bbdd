"""Lab 02's live vLLM: what it must show, and that nothing of a run is left, however it ends.

On a machine without vLLM these say `make vllm`. The `gpu` tests ask the same of CUDA ranks.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from labkit.loading import find_labs, load_module

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")
SHARED_MEMORY = Path("/dev/shm")
LIMIT_S = 240  # of one run; 8 to 30 s on two quiet cores, `import vllm` being most of it


@pytest.fixture(scope="module")
def two_way():
    spec = importlib.util.spec_from_file_location("two_way_under_test", LAB.path / "two_way.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def nothing_left():
    """After the test: no shared memory of the lab's runs, and no process of them."""
    before = ours()
    yield
    deadline = time.monotonic() + 5
    while ours() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ours() - before == set()


def ours():
    """Shared-memory files of live runs, and processes that run live_rank.py or live_engine.py."""
    found = {path.name for path in SHARED_MEMORY.glob("lab02-*")}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"live_rank.py" in words or b"live_engine.py" in words:
            found.add(process.name)
    return found


# --- refused before anything starts -------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "tp_size", "said"),
    [
        ({"num_attention_heads": 7, "num_key_value_heads": 7}, 2, "num_heads=7"),
        ({"num_key_value_heads": 3}, 2, "num_kv_heads=3"),
        ({"intermediate_size": 1023}, 2, "intermediate_size=1023"),
    ],
)
def test_an_impossible_split_starts_nothing(two_way, tmp_path, monkeypatch, changes, tp_size, said):
    monkeypatch.setenv("LAB_VLLM_PYTHON", sys.executable)  # never started
    started = []
    with pytest.raises(two_way.LiveError, match=said) as refused:
        two_way.run_ranks(
            two_way.tiny_llama(**changes), tp_size, folder=tmp_path, on_start=started.append
        )
    assert "\n" not in str(refused.value) and not started
    assert not list(tmp_path.glob("*.log"))


def test_no_vllm_is_one_sentence(two_way, monkeypatch):
    monkeypatch.setenv("LAB_VLLM_PYTHON", "/nowhere/python")
    with pytest.raises(two_way.LiveError, match="/nowhere/python"):
        two_way.find_python()


def test_the_model_is_the_same_every_time(two_way, tmp_path):
    config = two_way.tiny_llama()
    files = [two_way.write_model(tmp_path / name, config) / "model.safetensors" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()
    size = int.from_bytes(files[0].read_bytes()[:8], "little")
    header = json.loads(files[0].read_bytes()[8 : 8 + size])
    del header["__metadata__"]
    end = max(entry["data_offsets"][1] for entry in header.values())
    assert files[0].stat().st_size == 8 + size + end
    solution = load_module(LAB.file("solution"))
    model = solution.model_shape(config)
    assert end == solution.rank_weights(model, 1)["parameters_bytes"]


# --- runs that end badly, without vLLM: the same launcher, another program ------------------------


@pytest.fixture
def pretend(two_way, tmp_path, monkeypatch):
    """Replace live_rank.py by a program of one line; returns run(program, **options)."""
    monkeypatch.setenv("LAB_VLLM_PYTHON", sys.executable)
    monkeypatch.setattr(two_way, "PROGRAMS", tmp_path / "programs")
    (tmp_path / "programs").mkdir()

    def run(program, **options):
        (tmp_path / "programs" / "live_rank.py").write_text("import os, sys, time\n" + program)
        (tmp_path / "run").mkdir(exist_ok=True)
        config = two_way.tiny_llama()
        return two_way.run_ranks(config, 2, folder=tmp_path / "run", **options)

    return run


def test_a_failing_rank_is_named_and_the_other_stopped(two_way, pretend, nothing_left):
    program = "if os.environ['RANK'] == '1': raise ValueError('no such layer')\ntime.sleep(60)"
    began = time.monotonic()
    with pytest.raises(two_way.LiveError, match="rank-1 failed.*ValueError: no such layer"):
        pretend(program)
    assert time.monotonic() - began < 20


def test_a_rank_that_hangs_is_stopped_at_the_limit(two_way, pretend, nothing_left):
    program = "print('waiting for', os.environ['RANK'], flush=True)\ntime.sleep(60)"
    with pytest.raises(two_way.LiveError, match="did not finish within 2 s.*waiting for 0"):
        pretend(program, timeout_s=2)


def test_shared_memory_and_helpers_of_a_dead_rank_are_removed(two_way, pretend, nothing_left):
    program = (
        "import subprocess\n"
        "name = os.path.basename(os.environ['LAB_RENDEZVOUS'])\n"
        "open(f'/dev/shm/{name}-tp:0-[0-1]-cpushm_' + os.environ['RANK'], 'w').write('x')\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', 'live_rank.py'])\n"
        "if os.environ['RANK'] == '0': time.sleep(0.5); os.kill(os.getpid(), 9)\n"
        "time.sleep(60)"
    )
    with pytest.raises(two_way.LiveError, match="rank-0 was killed by SIGKILL"):
        pretend(program)


# --- live ---------------------------------------------------------------------------------------


def page(*words, **environment):
    return subprocess.run(
        [sys.executable, str(LAB.path / "two_way.py"), *words],
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        env=os.environ | environment,
    )


@pytest.mark.vllm
@pytest.mark.timeout(2 * LIMIT_S + 20)  # vLLM is started twice
def test_make_two_way_prints_one_page_that_agrees(nothing_left, tmp_path):
    run = page("--json", str(tmp_path / "measured.json"))
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) <= 45
    assert "yes  token ids equal" in run.stdout and "NO " not in run.stdout
    assert run.stdout.count(" 0\n") >= 3  # residuals
    measured = json.loads((tmp_path / "measured.json").read_text())
    one, two = measured["tp1"]["reports"][0], measured["tp2"]["reports"]
    assert [rank["rank"] for rank in two] == [0, 1]
    assert {rank["kv_cache"]["blocks"] for rank in two} == {2 * one["kv_cache"]["blocks"]}
    whole = sum(parameter["bytes"] for parameter in one["parameters"].values())
    for rank in two:
        held = sum(parameter["bytes"] for parameter in rank["parameters"].values())
        assert whole / 2 < held < 0.51 * whole  # the norms are whole on both


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
def test_capacity_does_not_double_when_kv_heads_are_copied(two_way, tmp_path, nothing_left):
    config = two_way.tiny_llama(num_key_value_heads=1)
    solution = load_module(LAB.file("solution"))
    model = solution.model_shape(config)
    alone = solution.kv_capacity(
        two_way.KV_MEMORY_BYTES, solution.kv_bytes_per_token(model, 1), 128, two_way.MAX_MODEL_LEN
    )
    for report in two_way.run_ranks(config, 2, folder=tmp_path, timeout_s=LIMIT_S):
        assert report["kv_cache"]["kv_heads"] == 1
        assert report["kv_cache"]["blocks"] == alone["blocks"]
        qkv = report["parameters"]["model.layers.0.self_attn.qkv_proj.weight"]["shape"]
        assert qkv == [4 * 32 + 2 * 32, 256]  # half the query heads, the whole K and V


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_killed_rank_ends_the_run_with_a_clear_error(two_way, tmp_path, nothing_left):
    def kill_rank_1(ranks):
        def when_connected():
            while not list(SHARED_MEMORY.glob("lab02-*cpushm*")) and ranks[1].poll() is None:
                time.sleep(0.02)
            os.kill(ranks[1].pid, signal.SIGKILL)

        threading.Thread(target=when_connected, daemon=True).start()

    with pytest.raises(two_way.LiveError) as ended:
        two_way.run_ranks(
            two_way.tiny_llama(), 2, folder=tmp_path, timeout_s=LIMIT_S, on_start=kill_rank_1
        )
    assert "rank-1 was killed by SIGKILL" in str(ended.value)
    assert "\n" not in str(ended.value)


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 80)  # the engine's own processes import vLLM one after the other
def test_two_stages_hold_their_layers_and_hand_activations_on(two_way, tmp_path, nothing_left):
    solution = load_module(LAB.file("solution"))
    config = two_way.tiny_llama()
    engine = two_way.run_engine(config, 1, 2, folder=tmp_path, timeout_s=LIMIT_S + 60)
    model = solution.model_shape(config)
    for stage, report in enumerate(engine["ranks"]):
        held = sum(parameter["bytes"] for parameter in report["parameters"].values())
        assert held == solution.rank_weights(model, 1, 2, stage)["parameters_bytes"]
        assert report["kv_cache"]["layers"] == solution.stage_layers(4, 2)[stage] == 2
    sent, received = ([call for call, _ in report["calls"]] for report in engine["ranks"])
    assert sent == ["isend_tensor_dict"] * two_way.NUM_TOKENS  # one hand-over per step
    assert received == ["irecv_tensor_dict"] * two_way.NUM_TOKENS
    alone = json.loads((LAB.path / "captures" / "tp1" / "report.json").read_text())["ranks"][0]
    assert engine["ranks"][0]["tokens"] == alone["tokens"]
    assert not list(SHARED_MEMORY.glob("vllm_dist_*"))


@pytest.mark.vllm
@pytest.mark.gpu(1)
@pytest.mark.timeout(LIMIT_S + 20)
def test_one_gpu_holds_what_the_ledger_says(two_way, tmp_path, nothing_left):
    """One GPU shows no split; it shows the allocator, and the log line the CPU build has not."""
    check_gpu(two_way, tmp_path, 1)


@pytest.mark.vllm
@pytest.mark.gpu(2)
@pytest.mark.timeout(2 * LIMIT_S + 20)
def test_two_gpus_hold_what_the_ledger_says(two_way, tmp_path, nothing_left):
    one = check_gpu(two_way, tmp_path / "one", 1)
    two = check_gpu(two_way, tmp_path / "two", 2)
    assert one[0]["tokens"] == two[0]["tokens"] == two[1]["tokens"]
    assert two[0]["kv_cache"]["blocks"] == 2 * one[0]["kv_cache"]["blocks"]
    assert two[0]["steps"] == two[1]["steps"]
    (tmp_path / "engine").mkdir()
    engine = two_way.run_engine(two_way.tiny_llama(), 2, folder=tmp_path / "engine")
    assert engine["ranks"][0]["tokens"] == one[0]["tokens"]
    model = load_module(LAB.file("solution")).model_shape(two_way.tiny_llama())
    layers = model["num_layers"]
    for step in two[0]["steps"]:
        assert sum(operation == "all_reduce" for operation, _ in step) == 2 * layers + 1


def check_gpu(two_way, folder, tp_size):
    solution = load_module(LAB.file("solution"))
    config = two_way.tiny_llama()
    model = solution.model_shape(config)
    folder.mkdir(exist_ok=True)
    reports = two_way.run_ranks(config, tp_size, folder=folder, timeout_s=LIMIT_S)
    assert {report["platform"] for report in reports} == {"cuda"}
    ledger = solution.rank_weights(model, tp_size)
    for report in reports:
        held = sum(parameter["bytes"] for parameter in report["parameters"].values())
        assert held == ledger["parameters_bytes"]
    log = solution.read_startup_log((folder / "rank-0.log").read_text(errors="replace"))
    assert log["tp_size"] == tp_size
    (worker,) = log["ranks"]
    # Printed to 0.01 GiB; the whole model is 0.016, so this says little, and says so.
    assert abs(worker["weights_gib"] - ledger["total_bytes"] / solution.GIB) <= 0.011
    return reports
