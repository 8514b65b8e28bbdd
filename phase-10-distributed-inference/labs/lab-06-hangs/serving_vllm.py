"""vLLM's server with notes taken in each of its processes; LAB_FAULT spoils the worker of rank 1.

    LAB_FOLDER=... LAB_FAULT=raise LAB_AT=200 python serving_vllm.py --model ... --port ...

Started by record_vllm.py. vLLM starts its processes anew and each imports this file first: so each
ends with its parent, writes its stacks on SIGUSR1 and notes how its children ended. A worker notes
its collectives as serving_rank.py does. Nothing of vLLM is replaced but what the fault spoils.
"""

import faulthandler
import json
import os
import signal
import time
from functools import wraps
from multiprocessing.popen_fork import Popen
from pathlib import Path

from labkit.ranks import die_with_parent

if "LAB_PARENT" in os.environ:  # before the imports, which take seconds
    die_with_parent(int(os.environ["LAB_PARENT"]))
os.environ["LAB_PARENT"] = str(os.getpid())  # of those that this process starts

import torch  # noqa: E402
from live import cpu_experts
from vllm.distributed.parallel_state import GroupCoordinator, get_dp_group, get_tp_group
from vllm.v1.executor.multiproc_executor import WorkerProc

FOLDER, FAULT, AT = Path(os.environ["LAB_FOLDER"]), os.environ["LAB_FAULT"], os.environ["LAB_AT"]
UNEQUAL = ("all_gatherv", "reduce_scatterv", "reduce_scatterv_into_output")
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "gather", "broadcast", *UNEQUAL)


def note(name, **what):
    with (FOLDER / f"events-{name}.jsonl").open("a") as file:
        file.write(json.dumps({"at_s": round(time.time(), 4), **what}) + "\n")


def note_ends():
    """When a process learns that a child of its has ended, it notes the exit status."""
    poll = Popen.poll

    @wraps(poll)
    def noted(self, *arguments):
        knew, found = self.returncode is not None, poll(self, *arguments)
        if self.returncode is not None and not knew:
            note("ends", pid=self.pid, exit=self.returncode)
        return found

    Popen.poll = noted


def note_collectives(rank, fault):
    """Those of vLLM's groups, and what goes to Torch past them: "dp-cpu", say."""
    counted, inside, groups = {}, [], [get_tp_group(), get_dp_group()]

    def wrap(owner, operation, group_of):
        original = getattr(owner, operation)

        @wraps(original)
        def noted(*given, **named):
            group = group_of(*given, **named)
            if group is None or inside:  # a collective that is made of others is one
                return original(*given, **named)
            number = counted[group] = counted.get(group, -1) + 1
            if fault and (group, number) == ("tp", int(AT)):
                spoil(fault)
            note(rank, event="enter", group=group, number=number, **_what(operation, given, named))
            inside.append(group)
            try:
                found = original(*given, **named)
            finally:
                inside.pop()
            note(rank, event="leave")  # not after an error
            return found

        setattr(owner, operation, noted)

    def of_vllm(group, *_, **__):
        return group.unique_name.split(":")[0] if group.world_size > 1 else None

    def of_torch(*_, group=None, **__):
        mine = [one for one in groups if one.cpu_group is group and one.world_size > 1]
        return f"{of_vllm(mine[0])}-cpu" if mine else None

    for operation in OPERATIONS:
        wrap(GroupCoordinator, operation, of_vllm)
    wrap(torch.distributed, "all_reduce", of_torch)
    members = {of_vllm(group): group.ranks for group in groups if of_vllm(group)}
    return members | {f"{name}-cpu": ranks for name, ranks in members.items()}, counted


def _what(operation, given, named):
    """Of ranks that bring unequally many rows the shape of the whole, on which they agree."""
    tensor = next(one for one in given if isinstance(one, torch.Tensor | list))
    first = tensor[0] if isinstance(tensor, list) else tensor
    shape, sizes = list(first.shape), named.get("sizes") or given[-1]
    if operation == "all_gatherv" and isinstance(sizes, list):
        shape[0] = sum(sizes)
    return {"operation": operation, "shape": shape, "dtype": str(first.dtype)[len("torch.") :]}


def leave_out_dummies(worker, counted):
    """From some collective on: its scheduler orders the dummy step, and the worker makes none."""
    dummy = worker.execute_dummy_batch
    worker.execute_dummy_batch = lambda: dummy() if counted.get("dp", 0) < int(AT) else None


def spoil(fault):
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("request 7: token id 70000 is not in the vocabulary")


def serve_and_note(serve):
    """Around a worker's loop, before which it has met the others."""

    @wraps(serve)
    def noted(worker):
        rank = worker.rank + get_dp_group().rank_in_group * get_tp_group().world_size
        fault = FAULT if rank == 1 else ""
        groups, counted = note_collectives(rank, fault if fault != "idle" else "")
        if fault == "idle":
            leave_out_dummies(worker.worker.worker, counted)
        note(rank, event="met", pid=os.getpid(), groups=groups)
        serve(worker)

    return noted


faulthandler.register(signal.SIGUSR1, (FOLDER / f"stacks-{os.getpid()}").open("w"))
note_ends()
cpu_experts.mend()
WorkerProc.worker_busy_loop = serve_and_note(WorkerProc.worker_busy_loop)

if __name__ == "__main__":
    from vllm.entrypoints.launchers.api_server.entry import main

    main()
