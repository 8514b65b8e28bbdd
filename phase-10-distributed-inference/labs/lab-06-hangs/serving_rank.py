"""One rank that serves: a step is two layers of computing and collectives; --fault spoils it.

Started by record.py, one process per rank. Each collective is noted in a file when it is entered
and when it is left, as Torch's flight recorder notes them, so that the notes outlive a killed
process. SIGUSR1 makes the process write the stacks of all its threads.
"""

import argparse
import contextlib
import faulthandler
import json
import os
import queue
import signal
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from given_evidence import TorchLinks
from torch.utils.file_baton import FileBaton

from labkit.loading import load_chosen

HIDDEN, TOKENS, LAYERS = 64, 4, 2
SIZES = (1, 1024, 65536)  # values in a message of the links' test


class Notebook:
    """Notes what this rank does: one JSON object a line, written at once."""

    def __init__(self, path):
        self.file = path.open("w", encoding="utf-8", buffering=1)

    def note(self, **what):
        self.file.write(json.dumps({"at_s": round(time.time(), 4), **what}) + "\n")


class Group:
    """A process group whose collectives are numbered and noted."""

    def __init__(self, name, notebook, members=None):
        self.name, self.notebook, self.number = name, notebook, 0
        self.group = dist.new_group(members) if members else dist.group.WORLD

    def all_reduce(self, tensor):
        with self._noted("all_reduce", tensor):
            dist.all_reduce(tensor, group=self.group)
        return tensor

    def all_gather(self, tensor):
        with self._noted("all_gather", tensor):
            parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size(self.group))]
            dist.all_gather(parts, tensor, group=self.group)
        return torch.cat(parts)

    @contextlib.contextmanager
    def _noted(self, operation, tensor):
        shape, dtype = list(tensor.shape), str(tensor.dtype).removeprefix("torch.")
        what = {"group": self.name, "number": self.number, "operation": operation}
        self.notebook.note(event="enter", **what, shape=shape, dtype=dtype)
        self.number += 1
        yield
        self.notebook.note(event="leave")  # not after an error


def serve(chosen, notebook):
    """Step after step: tensor parallelism's sum and the experts' gather, in every layer."""
    tp = Group("tp", notebook)
    ep = Group("ep", notebook, list(range(dist.get_world_size())))
    weight = torch.eye(HIDDEN)
    for step in range(chosen.steps):
        here = chosen.fault if step >= chosen.at_step else ""
        x = torch.ones(TOKENS, HIDDEN)
        if here == "stale-lock":  # a kernel is built once; others wait for whoever builds it
            FileBaton(str(chosen.folder / "kernel.lock")).wait()
        if here == "idle":
            print(f"rank {chosen.rank}: request 7 is answered, waiting for the next", flush=True)
            queue.Queue().get()
        if here == "slow":
            time.sleep(2.5)
        if here == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        layer(step, x, weight, tp, ep, here)
        notebook.note(event="step", number=step)


def layer(step, x, weight, tp, ep, fault):
    """One step's collectives, in the order in which every rank has to make them."""
    for number in range(LAYERS):
        x = x @ weight
        time.sleep(0.02)
        if fault == "raise" and number == 1:
            raise ValueError("request 7: token id 70000 is not in the vocabulary")
        if fault == "order" and number == 1:
            ep.all_gather(x)
            tp.all_reduce(x)
            continue
        if fault == "operation" and number == 1:
            tp.all_gather(x)
            continue
        tp.all_reduce(x[:-1].clone() if fault == "shape" and number == 1 else x)
        ep.all_gather(x[:1].clone())


class SpoiledLinks(TorchLinks):
    """A link that alters large messages: simulated in the collective, as no cable here does it."""

    def send(self, values, to):
        spoiled = len(values) >= 65536
        super().send([*values[:-1], 0] if spoiled else values, to)


def test_links(chosen):
    """What the learner's links_work says of this group; rank 0 writes it down."""
    lab = load_chosen(Path(__file__).parent, default="starter")
    group = SpoiledLinks() if chosen.fault == "corrupt" else TorchLinks()
    found = lab.links_work(group, SIZES)
    print(f"rank {chosen.rank}: links that do not work: {found or 'none'}", flush=True)
    if chosen.rank == 0:
        (chosen.folder / "links.json").write_text(json.dumps(found))


def join(chosen):
    """Meet the other ranks through the store, which rank 0 serves unless it is served elsewhere."""
    host, port = chosen.store.split(":")
    if chosen.fault == "wrong-address":
        os.environ["GLOO_SOCKET_IFNAME"] = "bridge0"  # its containers' network, which ends here
    serves = chosen.rank == 0 and not chosen.no_store_here
    store = dist.TCPStore(host, int(port), chosen.size, serves, timedelta(minutes=30))
    dist.init_process_group("gloo", store=store, rank=chosen.rank, world_size=chosen.size)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int)
    parser.add_argument("--size", type=int)
    parser.add_argument("--store", help="host:port")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--no-store-here", action="store_true", help="rank 0 expects it elsewhere")
    parser.add_argument("--fault", default="")
    parser.add_argument("--at-step", type=int, default=0)
    parser.add_argument("--links", action="store_true", help="first see what links_work says")
    parser.add_argument("--steps", type=int, default=100_000, help="then it ends")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    notebook = Notebook(chosen.folder / f"events-{chosen.rank}.jsonl")
    faulthandler.register(signal.SIGUSR1, (chosen.folder / f"stacks-{os.getpid()}").open("w"))
    print(f"rank {chosen.rank}: pid {os.getpid()}, loading the model", flush=True)
    if chosen.fault == "import":
        import no_such_kernels  # noqa: F401
    print(f"rank {chosen.rank}: joining {chosen.size} ranks at {chosen.store}", flush=True)
    join(chosen)
    notebook.note(event="met")
    print(f"rank {chosen.rank}: all {chosen.size} ranks are there, serving", flush=True)
    if chosen.links:
        test_links(chosen)
    try:
        serve(chosen, notebook)
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        if chosen.fault != "raise":
            raise
        queue.Queue().get()  # a worker that logs the error and waits for the next message


if __name__ == "__main__":
    main()
