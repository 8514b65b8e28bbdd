"""What a mode holds: bytes kept for backward, exactly, and how far the resident set grows."""

import contextlib
import ctypes
from pathlib import Path

import torch

from .train import loss_sum


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


def growth(device, step):
    """Bytes by which `step()` makes the memory grow at its highest; 0 where nobody counts it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return torch.cuda.max_memory_allocated() - before
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)  # what the allocator keeps would hide the growth
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again
    before = resident("VmRSS")
    step()
    return resident("VmHWM") - before


def resident(field):
    """Resident memory now (VmRSS) or at its highest (VmHWM), in bytes; Linux only."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return 1024 * int(line.split()[1])
    return 0
