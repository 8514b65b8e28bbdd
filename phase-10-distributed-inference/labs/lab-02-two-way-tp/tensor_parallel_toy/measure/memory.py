"""What a mode holds: bytes kept for backward, exactly, and how far the resident set grows."""

import contextlib
import ctypes
from pathlib import Path

import torch
import torch.distributed as dist

from ..train import loss_sum


def saved_bytes(model, tokens, labels, tp):
    """Bytes that autograd keeps for backward, per rank: exact, each storage counted once."""
    known = {_storage(t).data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept = {}

    def pack(tensor):
        storage = _storage(tensor)
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_sum(model, tokens, labels, tp)
    total = sum(kept.values())
    loss.backward()
    model.zero_grad()
    return total


def _storage(tensor):
    """The memory behind a tensor, also behind a DTensor or a collective's pending result."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return getattr(local, "elem", local).untyped_storage()


def measure_memory(tp, mode, tokens, labels):
    """{"saved_bytes", "peak_bytes"} of this rank, 0 where the mode does not run."""
    if mode.name == "compute only" or not mode.runs_here:
        dist.barrier()
        return {"saved_bytes": 0, "peak_bytes": 0}
    mode.apply()
    saved = saved_bytes(mode.model, tokens, labels, mode.place)
    if tp.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        mode.step(tokens, labels)
        peak = torch.cuda.max_memory_allocated() - before
    else:
        before = resident("VmRSS", reset=True)
        mode.step(tokens, labels)
        peak = resident("VmHWM") - before
    dist.barrier()
    return {"saved_bytes": saved, "peak_bytes": peak}


def resident(field, reset=False):
    """Resident memory now (VmRSS) or at its highest since the last reset (VmHWM); Linux only."""
    try:
        if reset:
            with contextlib.suppress(AttributeError, OSError):
                ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps would hide the growth
            Path("/proc/self/clear_refs").write_text("5")
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0
