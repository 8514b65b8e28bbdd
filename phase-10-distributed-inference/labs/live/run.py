"""Start the tiny Llama in a real vLLM, wait for it, and return what its workers wrote down.

To import vLLM takes longer than all the rest, so the ranks are forks of a process that has (see
labkit.ranks).

The programs that vLLM's interpreter runs (rank.py, engine.py) get everything they need in a job
file: the arguments of LLM(...), the prompts, how many tokens.
"""

import json
import os
import re
import shutil
import tempfile
import uuid
from functools import lru_cache
from pathlib import Path

from labkit.needs import vllm_python
from labkit.ranks import NETWORK, run_processes
from labkit.ranks import RanksFailed as LiveError
from live.model import tiny_llama, write_model

ROOM = Path(__file__).resolve().parent
RANK, ENGINE = ROOM / "rank.py", ROOM / "engine.py"
SHARED_MEMORY = Path("/dev/shm")
MEMORY_OF_A_RANK = 1.5e9  # bytes: vLLM and Torch imported, the tiny model, its KV cache
KV_MEMORY_BYTES = 8 * 2**20  # per rank: at tp_size=1 and 2 alike, so that capacity shows the split
PROMPTS = [[5, 17, 99, 300, 42, 7], [11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]]
NUM_TOKENS = 16
MAX_MODEL_LEN = 64


def python():
    """The interpreter that has vLLM, or a LiveError that says how to get one."""
    try:
        found = vllm_python()
    except ValueError as error:
        raise LiveError(str(error)) from None
    if found is None:
        raise LiveError("no vLLM here; `make vllm` installs its CPU build into .venv-vllm")
    return found


def engine_arguments(model, config, tp_size, pp_size=1, **changes):
    """The arguments of LLM(...) in every run of the course; `changes` replace some."""
    return {
        "model": str(model),
        "tensor_parallel_size": tp_size,
        "pipeline_parallel_size": pp_size,
        "dtype": config["torch_dtype"],
        "load_format": "noting",  # of probe.py
        "enforce_eager": True,
        "skip_tokenizer_init": True,
        "enable_prefix_caching": False,
        "max_model_len": MAX_MODEL_LEN,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 64,
        "kv_cache_memory_bytes": KV_MEMORY_BYTES,
        "seed": 0,
    } | changes


def run_ranks(config, *tp_sizes, arguments=None, folder, **options):
    """Run the model of `config` once for each of `tp_sizes`, all at the same time.

    Returns reports[run][rank]. arguments: of LLM(...), replaced. The rest: see `run_jobs`.
    """
    model = write_model(Path(folder).resolve() / "model", config)
    jobs = [engine_arguments(model, config, tp_size, **(arguments or {})) for tp_size in tp_sizes]
    return run_jobs([{"engine": job} for job in jobs], folder=folder, **options)


def run_jobs(jobs, *, folder, program=RANK, more=None, timeout_s=240, hosts=None, on_start=None):
    """Run an engine for each of `jobs`, all at the same time.

    Returns reports[job][rank]. A job holds `engine`, the arguments of LLM(...), and what else its
    ranks need, `more` too. folder: empty or new; it receives a job file per run, and each process's
    log and report. program: what a rank runs. hosts: of live.hosts, one for each process. on_start:
    see labkit.ranks. LiveError when a rank fails, dies or takes longer than `timeout_s`; whatever
    happens, no rank and no shared memory is left.
    """
    interpreter, folder = python(), Path(folder).resolve()
    words, environments, reports = [], [], []
    # vLLM names its shared memory after the file in which the ranks meet.
    run_id = f"lab02-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    for run, told in enumerate(jobs):
        job, engine = folder / f"job-{run}.json", told["engine"]
        _write_job(job, engine, told | (more or {}))
        num_ranks = engine["tensor_parallel_size"] * engine.get("data_parallel_size", 1)
        for rank in range(num_ranks):
            process, meeting, card = len(words), f"{run_id}-{run}", {}
            if hosts:  # each host has a name of its own for the meeting file: no shared memory then
                meeting = f"{run_id}-{run}-host-{rank}"
                (folder / meeting).symlink_to(folder / f"{run_id}-{run}")
                enter, interface = hosts[process]
                card = {NETWORK: enter[-1].removeprefix("--net=")}
                card |= {"GLOO_SOCKET_IFNAME": interface}
            words.append([str(job)])
            environments.append(
                environment(interpreter, folder)
                | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(num_ranks)}
                | {"LAB_PROCESS": str(process), "LAB_MEETING": str(folder / meeting)}
                | card
            )
        reports.append([job.with_name(f"job-{run}-rank-{rank}.json") for rank in range(num_ranks)])
    options = {"interpreter": interpreter, "environments": environments}
    try:
        run_processes(program, words, folder, timeout_s=timeout_s, on_start=on_start, **options)
    finally:
        _unlink(run_id)
    return [[json.loads(report.read_text()) for report in run] for run in reports]


def run_engine(
    config, tp_size, pp_size=1, *, folder, program=ENGINE, arguments=None, more=None, timeout_s=300
):
    """The ordinary engine, which starts workers of its own; returns its report."""
    interpreter, folder = python(), Path(folder).resolve()
    model, job = write_model(folder / "model", config), folder / "job-0.json"
    _write_job(job, engine_arguments(model, config, tp_size, pp_size, **(arguments or {})), more)
    options = {"interpreter": interpreter, "environments": [environment(interpreter, folder)]}
    try:
        run_processes(program, [[str(job)]], folder, timeout_s=timeout_s, **options)
    finally:  # its workers met in a file of this name, and call their shared memory after it
        log = folder / "rank-0.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        for meeting in set(re.findall(r"file://(\S*?vllm_dist_\w+)", text)):
            Path(meeting).unlink(missing_ok=True)
            _unlink(Path(meeting).name)
    return json.loads((folder / "engine.json").read_text())


def measure(*tp_sizes, kv_heads=4):
    """What `run_ranks` reports for each tp_size, with config and logs; kept in memory.

    All sizes start at once where the memory allows, else one after the other.
    """
    if len(tp_sizes) > 1 and not room_for(sum(tp_sizes) * MEMORY_OF_A_RANK):
        return [_measure((tp_size,), kv_heads)[0] for tp_size in tp_sizes]
    return _measure(tp_sizes, kv_heads)


@lru_cache(maxsize=4)
def _measure(tp_sizes, kv_heads):
    config = tiny_llama(num_key_value_heads=kv_heads)
    folder = tempfile.mkdtemp(prefix="two-way-")
    try:
        runs = run_ranks(config, *tp_sizes, folder=folder)
        paths = [Path(folder, f"rank-{process}.log") for process in range(sum(tp_sizes))]
        logs = iter([path.read_text(errors="replace") for path in paths])
        return [
            {"config": config, "reports": reports, "logs": [next(logs) for _ in reports]}
            for reports in runs
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def totals(calls):
    """{operation: [count, payload bytes]} of one step's calls; bytes None where not counted."""
    found = {}
    for operation, payload in calls:
        count, total = found.get(operation, (0, 0))
        found[operation] = [count + 1, None if payload is None else total + payload]
    return found


def _write_job(path, arguments, more):
    job = {"engine": arguments, "prompts": PROMPTS, "num_tokens": NUM_TOKENS} | (more or {})
    path.write_text(json.dumps(job))


def _unlink(name):
    """Remove the shared memory that is named so, or begins so."""
    for leftover in SHARED_MEMORY.glob(name + "*"):
        leftover.unlink(missing_ok=True)


def environment(interpreter, folder):
    """What a process that runs vLLM here needs to know."""
    cache = Path(interpreter).absolute().parent.parent / "cache"  # of model classes: saves 6 s
    if not os.access(cache.parent, os.W_OK):
        cache = folder / "cache"
    return os.environ | {
        "PYTHONPATH": str(ROOM),  # workers that vLLM starts itself import probe.py by name
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # binding wants one NUMA node per rank
        "TORCH_COMPILE_DISABLE": "1",  # or the first step compiles a 5-line function for 15 s
        # A rank's engine is its own process; the ordinary engine's core saves an import of vLLM.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "OMP_NUM_THREADS": "1",
        "VLLM_CACHE_ROOT": str(cache),
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
    }


def room_for(num_bytes):
    """Whether ranks that take so much can run at once. A vLLM on a GPU claims most of it."""
    try:
        meminfo = Path("/proc/meminfo").read_text()
    except OSError:
        return False
    free = re.search(r"MemAvailable: *(\d+) kB", meminfo)
    on_gpu = Path("/proc/driver/nvidia/version").exists()
    return bool(free) and not on_gpu and 1024 * int(free[1]) >= num_bytes
