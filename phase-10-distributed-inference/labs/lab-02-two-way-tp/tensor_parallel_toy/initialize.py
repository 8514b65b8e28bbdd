"""Starting p ranks, joining them in a group, and ending them: no fixed port, no orphan.

`launch` starts one process per rank on this machine and brings their results back. Under
`torchrun` the processes exist already, and `join` alone is used.
"""

import contextlib
import ctypes
import importlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
START = "import sys; from tensor_parallel_toy.initialize import as_rank; as_rank(sys.argv[1])"


class RanksFailed(RuntimeError):
    """At least one rank failed; the message has one sentence per rank that did."""


def launch(target, num_ranks, options=None, timeout_s=30.0, limit_s=600.0, prefix="", echo=False):
    """Run "module:function"(tp, **options) on every rank -> list of results (JSON values).

    `timeout_s` bounds one communication, `limit_s` the run. `prefix` is put before each rank's
    command, with {rank} filled in (a network namespace, say). Raises RanksFailed.
    """
    with tempfile.TemporaryDirectory(prefix="tp-toy-") as folder:
        folder = Path(folder)
        path = os.pathsep.join([str(LAB), *[p for p in sys.path if p]])
        ranks = []
        try:
            for rank in range(num_ranks):
                env = dict(
                    os.environ,
                    RANK=str(rank),
                    WORLD_SIZE=str(num_ranks),
                    LOCAL_RANK=str(rank),
                    PYTHONPATH=path,
                    TOY_STORE=str(folder / "store"),
                    TOY_RESULT=str(folder / f"result-{rank}.json"),
                )
                env.setdefault("OMP_NUM_THREADS", str(max(1, os.cpu_count() // num_ranks)))
                work = json.dumps(
                    {
                        "target": target,
                        "options": options or {},
                        "timeout_s": timeout_s,
                        "parent": os.getpid(),
                    }
                )
                command = [
                    *shlex.split(prefix.format(rank=rank)),
                    sys.executable,
                    "-c",
                    START,
                    work,
                ]
                with open(folder / f"err-{rank}", "w") as err:
                    ranks.append(
                        subprocess.Popen(
                            command,
                            env=env,
                            stderr=err,
                            stdout=None if echo and rank == 0 else subprocess.DEVNULL,
                        )
                    )
            _watch(ranks, timeout_s, limit_s)
        finally:
            stopped = [rank for rank, process in enumerate(ranks) if process.poll() is None]
            for process in ranks:
                process.kill()
                process.wait()
        if any(process.returncode for process in ranks):
            sentences = [
                f"rank {rank}: did not end by itself and was stopped"
                if rank in stopped
                else _sentence(rank, process.returncode, folder / f"err-{rank}")
                for rank, process in enumerate(ranks)
            ]
            raise RanksFailed("\n".join(filter(None, sentences)))
        return [
            json.loads((folder / f"result-{rank}.json").read_text()) for rank in range(num_ranks)
        ]


def _watch(ranks, timeout_s, limit_s):
    """Wait for all ranks; after the first failure the others get one timeout to say theirs."""
    deadline = time.monotonic() + limit_s
    failed = False
    while any(process.poll() is None for process in ranks) and time.monotonic() < deadline:
        if not failed and any(process.returncode for process in ranks):
            failed = True
            deadline = min(deadline, time.monotonic() + timeout_s + 3)
        time.sleep(0.02)


def _sentence(rank, code, err):
    """What a failed rank said itself, or what happened to it."""
    lines = err.read_text(errors="replace").strip().splitlines()
    own = [line for line in lines if line.startswith(f"rank {rank}: ")]
    if own:
        return own[-1]
    if code == -signal.SIGKILL:
        return f"rank {rank}: was killed (signal 9)"
    if code < 0:
        return f"rank {rank}: died of signal {-code} ({signal.Signals(-code).name})"
    if code:
        return f"rank {rank}: ended with status {code}: {lines[-1] if lines else 'no message'}"
    return ""


def in_torchrun():
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def run_rank(target, options, timeout_s, echo_errors=True):
    """This process as one rank: join, call, leave. Any failure is one sentence and status 1."""
    rank = os.environ["RANK"]
    try:
        module, function = target.split(":")
        function = getattr(importlib.import_module(module), function)
        with joined(timeout_s, options.get("backend", "auto"), options.get("link", "auto")) as tp:
            result = function(
                tp, **{k: v for k, v in options.items() if k not in ("backend", "link")}
            )
        if "TOY_RESULT" in os.environ:
            Path(os.environ["TOY_RESULT"]).write_text(json.dumps(result))
        return result
    except Exception as error:
        if os.environ.get("TOY_TRACEBACK"):
            traceback.print_exc()
        print(f"rank {rank}: {explain(error, timeout_s)}", file=sys.stderr, flush=True)
        os._exit(1)  # a broken group cannot be shut down in order


def explain(error, timeout_s):
    """One line for any error of a distributed run."""
    text = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and re.search(r"[Tt]imed out|[Tt]imeout", text):
        return (
            f"waited {timeout_s:g} s for the other ranks: one is dead, or takes part in "
            f"another operation" + _where(error)
        )
    if isinstance(error, RuntimeError) and re.search(r"[Cc]onnection|peer|reset", text):
        return "lost the connection to another rank, which must have died" + _where(error)
    return text if isinstance(error, (ValueError, LostRank)) else f"{type(error).__name__}: {text}"


def _where(error):
    notes = getattr(error, "__notes__", [])
    return f" ({notes[0]})" if notes else ""


class LostRank(RuntimeError):
    """A rank did not come, or came with something else; the message says which."""


@contextlib.contextmanager
def joined(timeout_s, backend="auto", link="auto"):
    """The group of all ranks as a TensorParallel; destroyed in order on the way out."""
    import torch
    import torch.distributed as dist

    from .parallel_linear import TensorParallel

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
    yield TensorParallel(
        dist.group.WORLD,
        device,
        store=dist.PrefixStore("toy", store),
        link=link,
        timeout_s=timeout_s,
    )
    dist.barrier()
    dist.destroy_process_group()


def _die_with_parent(parent):
    """Linux: the kernel kills this rank if its launcher dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def as_rank(work):
    """The whole life of a process that `launch` starts."""
    work = json.loads(work)
    _die_with_parent(work["parent"])
    run_rank(work["target"], work["options"], work["timeout_s"])
