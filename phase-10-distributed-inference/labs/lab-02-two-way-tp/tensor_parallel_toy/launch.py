"""Starting p ranks, joining them in a group, and ending them: no fixed port, no orphan.

`launch` starts one process per rank on this machine and brings their results back. Under
`torchrun` the processes exist already, and `join` alone is used.
"""

import contextlib
import importlib
import json
import os
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from labkit.loading import load_chosen
from labkit.ranks import run_processes

from .lost_rank import explain
from .schedule import SCHEDULES
from .stream_machine import simulate

LAB = Path(__file__).resolve().parent.parent
RANK = Path(__file__).with_name("rank.py")


def launch(target, num_ranks, options=None, timeout_s=30.0, limit_s=600.0, echo=False):
    """Run "module:function"(tp, **options) on every rank -> list of results (JSON values).

    `timeout_s` bounds one communication, `limit_s` the run. Raises RanksFailed.
    """
    work = json.dumps({"target": target, "options": options or {}, "timeout_s": timeout_s})
    with tempfile.TemporaryDirectory(prefix="tp-toy-") as folder:
        environments = [_environment(rank, num_ranks, folder) for rank in range(num_ranks)]
        run_processes(
            RANK,
            [[work]] * num_ranks,
            folder,
            environments=environments,
            timeout_s=limit_s,
            grace_s=timeout_s + 3,  # the others get one timeout to say what they saw
            echo=0 if echo else None,
        )
        results = [Path(folder, f"result-{rank}.json") for rank in range(num_ranks)]
        return [json.loads(result.read_text()) for result in results]


def _environment(rank, num_ranks, folder):
    threads = str(max(1, os.cpu_count() // num_ranks))
    return dict(
        os.environ,
        RANK=str(rank),
        WORLD_SIZE=str(num_ranks),
        LOCAL_RANK=str(rank),
        PYTHONPATH=os.pathsep.join([str(LAB), *[p for p in sys.path if p]]),
        TOY_STORE=os.path.join(folder, "store"),
        TOY_RESULT=os.path.join(folder, f"result-{rank}.json"),
        OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", threads),
    )


def chosen_schedules(num_ranks):
    """The schedules of the layers; forward's are those of the file that LAB_IMPL names.

    ScheduleError where one of those is wrong for this many ranks: the ranks would hang.
    """
    lab = load_chosen(LAB)
    for problem, own in (
        ("all_gather_gemm", lab.all_gather_gemm_schedule),
        ("gemm_reduce_scatter", lab.gemm_reduce_scatter_schedule),
    ):
        simulate([own(num_ranks, rank) for rank in range(num_ranks)], problem)
    return SCHEDULES | {
        "column_forward": lab.all_gather_gemm_schedule,
        "row_forward": lab.gemm_reduce_scatter_schedule,
    }


def in_torchrun():
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def run_rank(target, options, timeout_s):
    """This process as one rank: join, call, leave. Any failure is one sentence and status 1."""
    try:
        module, function = target.split(":")
        function = getattr(importlib.import_module(module), function)
        known = ("backend", "link", "chosen")
        how = {name: options.pop(name) for name in known if name in options}
        with joined(timeout_s, **how) as tp:
            result = function(tp, **options)
        if "TOY_RESULT" in os.environ:
            Path(os.environ["TOY_RESULT"]).write_text(json.dumps(result))
        return result
    except Exception as error:
        told = f"rank {os.environ['RANK']}: {explain(error, timeout_s)}"
        print(told, file=sys.stderr, flush=True)
        os._exit(1)  # a broken group cannot be shut down in order


@contextlib.contextmanager
def joined(timeout_s, backend="auto", link="auto", chosen=False):
    """The group of all ranks as a TensorParallel; destroyed in order on the way out.

    chosen: forward runs the schedules of the file that LAB_IMPL names.
    """
    import torch
    import torch.distributed as dist

    from .group import TensorParallel

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if backend == "auto":
        backend = "nccl" if torch.cuda.device_count() >= size else "gloo"
    if backend == "nccl" and torch.cuda.device_count() < size:
        raise ValueError(
            f"backend nccl needs {size} GPUs, one per rank, and this machine has "
            f"{torch.cuda.device_count()}: use --backend gloo"
        )
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(device)
    timeout = timedelta(seconds=timeout_s)
    if "TOY_STORE" in os.environ:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        store = dist.FileStore(os.environ["TOY_STORE"], size)
    else:
        store, rank, size = next(dist.rendezvous("env://", timeout=timeout))
    store.set_timeout(timeout)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    store = dist.PrefixStore("toy", store)
    tp = TensorParallel(dist.group.WORLD, device, store, link, timeout_s)
    if chosen:
        tp.schedules = chosen_schedules(size)
    yield tp
    dist.barrier()
    dist.destroy_process_group()
