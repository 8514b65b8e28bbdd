"""Lab 02's live vLLM: what it must show, and that nothing of a run is left, however it ends.

On a machine without vLLM these say `make vllm`. The `gpu` tests ask the same of CUDA ranks.
"""

import json
import os
import sys
import textwrap
import time
from pathlib import Path

import pytest

from labkit.loading import find_labs, load_module
from tests.conftest import processes_of, python

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")
sys.path.append(str(LAB.path))  # as `python two_way.py` finds its own folder
import two_way  # noqa: E402
from live import run  # noqa: E402
from live.model import tiny_llama, write_model  # noqa: E402

SHARED_MEMORY = Path("/dev/shm")
LIMIT_S = 240  # of one launch; 8 to 20 s on two quiet cores, `import vllm` being most of it


@pytest.fixture
def nothing_left(tmp_path):
    """After the test: no shared memory of this process's runs, and none of their processes."""
    yield
    deadline = time.monotonic() + 5
    while ours(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ours(tmp_path) == set()


def ours(folder):
    """Shared memory named after this process; processes with a job in `folder` or a log there."""
    memory = {path.name for path in SHARED_MEMORY.glob(f"lab02-{os.getpid()}-*")}
    return memory | processes_of(folder)


# --- refused before anything starts -------------------------------------------------------------


@pytest.mark.parametrize("words", [["--tp", "3"], ["--kv-heads", "3"], ["--tp", "0"]])
def test_an_impossible_split_starts_nothing(words, tmp_path):
    trap = tmp_path / "python"  # in the place of vLLM's interpreter; tells when it is started
    trap.write_text("#!/bin/sh\ntouch $0-was-started\nexit 1\n")
    trap.chmod(0o755)
    ran = page(*words, LAB_VLLM_PYTHON=str(trap))
    assert ran.returncode != 0 and ran.stdout == ""
    assert ran.stderr.count("\n") == 1 and "tp_size" in ran.stderr
    assert os.listdir(tmp_path) == ["python"]


def test_no_vllm_is_one_sentence():
    ran = page(LAB_VLLM_PYTHON="/nowhere/python")
    assert ran.returncode != 0 and ran.stdout == ""
    assert ran.stderr.count("\n") == 1 and "LAB_VLLM_PYTHON=/nowhere/python" in ran.stderr


def page(*words, **environment):
    return python(LAB.path / "two_way.py", *words, **environment)


def test_the_model_is_the_same_every_time(tmp_path):
    config = tiny_llama()
    files = [write_model(tmp_path / name, config) / "model.safetensors" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()
    size = int.from_bytes(files[0].read_bytes()[:8], "little")
    header = json.loads(files[0].read_bytes()[8 : 8 + size])
    del header["__metadata__"]
    end = max(entry["data_offsets"][1] for entry in header.values())
    assert files[0].stat().st_size == 8 + size + end
    solution = load_module(LAB.file("solution"))
    assert end == solution.rank_weights(solution.model_shape(config), 1)["parameters_bytes"]


@pytest.mark.parametrize(
    ("memory", "on_gpu", "at_once"),
    [(16e9, False, True), (2e9, False, False), (16e9, True, False), (None, False, False)],
)
def test_both_sizes_start_at_once_only_where_the_memory_allows(
    tmp_path, monkeypatch, memory, on_gpu, at_once
):
    starts = []

    def started(config, *tp_sizes, folder):
        starts.append(tp_sizes)
        for process in range(sum(tp_sizes)):
            Path(folder, f"rank-{process}.log").write_text(f"log of {process}")
        return [[{"tp_size": tp_size, "rank": n} for n in range(tp_size)] for tp_size in tp_sizes]

    def read_text(path, **options):
        if str(path) == "/proc/meminfo":
            if memory is None:  # not Linux
                raise FileNotFoundError(path)
            return f"MemTotal: 9 kB\nMemAvailable:   {memory / 1024:.0f} kB\n"
        return real(path, **options)

    def there(path):
        return on_gpu if str(path).startswith("/proc/driver") else exists(path)

    real, exists = Path.read_text, Path.exists
    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(Path, "exists", there)
    monkeypatch.setattr(run, "run_ranks", started)
    monkeypatch.setattr(run, "_measure", run._measure.__wrapped__)  # what is kept stays kept
    one, two = run.measure(1, 2, kv_heads=2)
    assert starts == ([(1, 2)] if at_once else [(1,), (2,)])
    assert [report["tp_size"] for report in one["reports"] + two["reports"]] == [1, 2, 2]
    assert len(one["logs"]) == 1 and len(two["logs"]) == 2


# --- runs that end badly, without vLLM: the same launcher, another program ------------------------


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Runs these lines in the place of live/rank.py: pretend(program, **options)."""
    monkeypatch.setenv("LAB_VLLM_PYTHON", sys.executable)

    def launch(program, *tp_sizes, **options):
        place = tmp_path / "live"
        place.mkdir()
        lines = textwrap.indent(program, "    ")
        (place / "rank.py").write_text(f"import os, sys, time\n\ndef main():\n{lines}\n")
        (tmp_path / "run").mkdir()
        return run.run_ranks(
            tiny_llama(),
            *(tp_sizes or [2]),
            folder=tmp_path / "run",
            program=place / "rank.py",
            **options,
        )

    return launch


def test_a_failing_rank_is_named_and_the_other_stopped(pretend, nothing_left):
    program = "if os.environ['RANK'] == '1': raise ValueError('no such layer')\ntime.sleep(60)"
    began = time.monotonic()
    with pytest.raises(run.LiveError, match="rank 1: .*ValueError: no such layer"):
        pretend(program)
    assert time.monotonic() - began < 20


def test_a_rank_that_hangs_is_stopped_at_the_limit(pretend, nothing_left):
    program = "print('waiting for', os.environ['RANK'], flush=True)\ntime.sleep(60)"
    with pytest.raises(run.LiveError, match="rank 0: did not end by itself and was stopped"):
        pretend(program, timeout_s=2)


def test_shared_memory_and_helpers_of_a_dead_rank_are_removed(pretend, nothing_left):
    program = (
        "import subprocess\n"
        "name = os.path.basename(os.environ['LAB_MEETING'])\n"
        "open(f'/dev/shm/{name}-tp:0-[0-1]-cpushm_' + os.environ['RANK'], 'w').write('x')\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]])\n"
        "if os.environ['RANK'] == '0': time.sleep(0.5); os.kill(os.getpid(), 9)\n"
        "time.sleep(60)"
    )
    with pytest.raises(run.LiveError, match="rank 0: died of signal 9"):
        pretend(program)


def test_a_helper_may_clear_away_what_a_stopped_rank_has_left(pretend, tmp_path, nothing_left):
    """Python's resource tracker unlinks the shared memory of vLLM's message queues."""
    program = (
        "import pathlib\n"
        "from multiprocessing.shared_memory import SharedMemory\n"
        "memory = SharedMemory(create=True, size=64)\n"
        "pathlib.Path(sys.argv[1]).with_suffix('.' + os.environ['RANK']).write_text(memory.name)\n"
        "time.sleep(60)"
    )
    with pytest.raises(run.LiveError, match="did not end by itself"):
        pretend(program, timeout_s=2)
    names = [(tmp_path / "run" / f"job-0.{rank}").read_text() for rank in range(2)]
    assert not [name for name in names if (SHARED_MEMORY / name).exists()]


def test_runs_at_the_same_time_meet_apart_and_report_apart(pretend, nothing_left):
    program = (
        "import json, pathlib\n"
        "job = pathlib.Path(sys.argv[1])\n"
        "names = ('RANK', 'WORLD_SIZE', 'LAB_PROCESS', 'LAB_MEETING')\n"
        "report = [os.environ[name] for name in names]\n"
        "report.append(json.loads(job.read_text())['engine']['tensor_parallel_size'])\n"
        "path = job.with_name(f'{job.stem}-rank-{report[0]}.json')\n"
        "path.write_text(json.dumps(report))"
    )
    one, two = pretend(program, 1, 2)
    who = [report[:3] for report in one + two]  # rank, of how many, process
    assert who == [["0", "1", "0"], ["0", "2", "1"], ["1", "2", "2"]]
    assert one[0][3] != two[0][3] == two[1][3]
    assert [report[4] for report in one + two] == [1, 2, 2]


# --- the page of a recorded run ------------------------------------------------------------------


def recorded(capsys, monkeypatch, **changed):
    """(status, page) of two_way.py --recorded by the solution with some functions changed."""
    solution = load_module(LAB.file("solution"))
    for name, function in changed.items():
        setattr(solution, name, function)
    monkeypatch.setattr(two_way, "load_chosen", lambda folder: solution)
    return two_way.main(["--recorded"]), capsys.readouterr().out


def test_the_recorded_page_has_no_residual(capsys, monkeypatch):
    status, page = recorded(capsys, monkeypatch)
    rows = [line.split() for line in page.splitlines()[3:] if line.endswith(" 0")]
    assert status == 0 and len(rows) == 23 and all(row[-3] == row[-2] for row in rows)


def test_a_recorded_page_of_another_run_is_refused():
    with pytest.raises(SystemExit, match="--recorded shows --tp 2 --kv-heads 4"):
        two_way.main(["--recorded", "--kv-heads", "1"])


def test_a_wrong_row_names_its_function_and_no_other(capsys, monkeypatch):
    real = load_module(LAB.file("solution")).kv_bytes_per_token
    wrong = lambda model, tp_size, *rest: real(model, tp_size, *rest) // tp_size  # noqa: E731
    status, page = recorded(capsys, monkeypatch, kv_bytes_per_token=wrong)
    assert status == 1 and "kv_bytes_per_token: yours 1,024, live 2,048" in page
    assert page.count("<- ") == 2 == page.count("<- kv_bytes_per_token")


def test_what_is_not_written_leaves_its_column_empty(capsys, monkeypatch):
    def todo(*arguments):
        raise NotImplementedError("rank_weights is yours to write")

    status, page = recorded(capsys, monkeypatch, rank_weights=todo)
    assert status == 0 and "not written yet: rank_weights" in page and "<-" not in page


# --- live ---------------------------------------------------------------------------------------


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
def test_make_two_way_prints_one_page_that_agrees(nothing_left, tmp_path, capsys):
    """What `python two_way.py` does, in this process: the runs are lab 02's live checks' too."""
    measured = tmp_path / "measured.json"
    status = two_way.main(["--json", str(measured)])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert len(printed.splitlines()) <= 60
    assert "yes  token ids equal" in printed and "NO " not in printed
    assert printed.count(" 0\n") >= 3  # residuals
    measured = json.loads(measured.read_text())
    one, two = measured["tp1"]["reports"][0], measured["tp2"]["reports"]
    assert [rank["rank"] for rank in two] == [0, 1]
    assert {rank["kv_cache"]["blocks"] for rank in two} == {2 * one["kv_cache"]["blocks"]}
    whole = sum(parameter["bytes"] for parameter in one["parameters"].values())
    for rank in two:
        held = sum(parameter["bytes"] for parameter in rank["parameters"].values())
        assert whole / 2 < held < 0.51 * whole  # the norms are whole on both


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
def test_capacity_does_not_double_when_kv_heads_are_copied(tmp_path, nothing_left):
    config = tiny_llama(num_key_value_heads=1)
    solution = load_module(LAB.file("solution"))
    model = solution.model_shape(config)
    alone = solution.kv_capacity(
        run.KV_MEMORY_BYTES, solution.kv_bytes_per_token(model, 1), 128, run.MAX_MODEL_LEN
    )
    (reports,) = run.run_ranks(config, 2, folder=tmp_path, timeout_s=LIMIT_S)
    for report in reports:
        assert report["kv_cache"]["kv_heads"] == 1
        assert report["kv_cache"]["blocks"] == alone["blocks"]
        qkv = report["parameters"]["model.layers.0.self_attn.qkv_proj.weight"]["shape"]
        assert qkv == [4 * 32 + 2 * 32, 256]  # half the query heads, the whole K and V


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_killed_rank_ends_the_run_with_a_clear_error(tmp_path, nothing_left, kill_rank_1):
    with pytest.raises(run.LiveError) as ended:
        options = {"timeout_s": LIMIT_S, "on_start": kill_rank_1}
        run.run_ranks(tiny_llama(), 2, folder=tmp_path, **options)
    assert "rank 1: died of signal 9 (SIGKILL)" in str(ended.value)
    assert len(str(ended.value).splitlines()) <= 2  # a line for each rank


@pytest.mark.vllm
@pytest.mark.timeout(LIMIT_S + 80)  # the engine's own processes import vLLM one after the other
def test_two_stages_hold_their_layers_and_hand_activations_on(tmp_path, nothing_left):
    solution = load_module(LAB.file("solution"))
    config = tiny_llama()
    engine = run.run_engine(config, 1, 2, folder=tmp_path, timeout_s=LIMIT_S + 60)
    model = solution.model_shape(config)
    for stage, report in enumerate(engine["ranks"]):
        held = sum(parameter["bytes"] for parameter in report["parameters"].values())
        assert held == solution.rank_weights(model, 1, 2, stage)["parameters_bytes"]
        assert report["kv_cache"]["layers"] == solution.stage_layers(4, 2)[stage] == 2
    sent, received = ([call for call, _ in report["calls"]] for report in engine["ranks"])
    assert sent == ["isend_tensor_dict"] * run.NUM_TOKENS  # one hand-over per step
    assert received == ["irecv_tensor_dict"] * run.NUM_TOKENS
    alone = json.loads((LAB.path / "captures" / "tp1" / "report.json").read_text())["ranks"][0]
    assert engine["ranks"][0]["tokens"] == alone["tokens"]
    assert not list(SHARED_MEMORY.glob("vllm_dist_*"))


@pytest.mark.vllm
@pytest.mark.gpu(1)
@pytest.mark.timeout(LIMIT_S + 20)
def test_one_gpu_holds_what_the_ledger_says(tmp_path, nothing_left):
    """One GPU shows no split; it shows the allocator, and the log line the CPU build has not."""
    check_gpu(tmp_path, 1)


@pytest.mark.vllm
@pytest.mark.gpu(2)
@pytest.mark.timeout(2 * LIMIT_S + 20)
def test_two_gpus_hold_what_the_ledger_says(tmp_path, nothing_left):
    one = check_gpu(tmp_path / "one", 1)
    two = check_gpu(tmp_path / "two", 2)
    assert one[0]["tokens"] == two[0]["tokens"] == two[1]["tokens"]
    assert two[0]["kv_cache"]["blocks"] == 2 * one[0]["kv_cache"]["blocks"]
    assert two[0]["steps"] == two[1]["steps"]
    (tmp_path / "engine").mkdir()
    engine = run.run_engine(tiny_llama(), 2, folder=tmp_path / "engine")
    assert engine["ranks"][0]["tokens"] == one[0]["tokens"]
    model = load_module(LAB.file("solution")).model_shape(tiny_llama())
    layers = model["num_layers"]
    for step in two[0]["steps"]:
        assert sum(operation == "all_reduce" for operation, _ in step) == 2 * layers + 1


def check_gpu(folder, tp_size):
    solution = load_module(LAB.file("solution"))
    config = tiny_llama()
    model = solution.model_shape(config)
    folder.mkdir(exist_ok=True)
    (reports,) = run.run_ranks(config, tp_size, folder=folder, timeout_s=LIMIT_S)
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
