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


def measure_bytes(tp, mode, tokens, labels):
    """{"saved_bytes", "peak_bytes", "sent_bytes"} of this rank; 0 is held where nothing runs."""
    saved = peak = 0
    if mode.name != "compute only" and mode.runs_here:
        mode.apply()
        saved = saved_bytes(mode.model, tokens, labels, mode.place)
        on_gpu = tp.device.type == "cuda"
        before = start_of_peak(on_gpu)
        mode.step(tokens, labels)
        peak = (torch.cuda.max_memory_allocated() if on_gpu else resident("VmHWM")) - before
    dist.barrier()
    sent = mode.taken[-1]["sent_bytes"]
    return {"saved_bytes": saved, "peak_bytes": peak, "sent_bytes": sent}


def start_of_peak(on_gpu):
    """Bytes that are held now, and from which on a peak is looked for."""
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps would hide the growth
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(field):
    """Resident memory now (VmRSS) or at its highest since `start_of_peak` (VmHWM); Linux only."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    return 0
