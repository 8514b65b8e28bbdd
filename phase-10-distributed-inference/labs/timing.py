"""Given to the programs that time Torch on this machine: a call's seconds, and what bounds them."""

import json
import sys
import time
from pathlib import Path

from labkit.provenance import write_provenance

BATCHES = 9  # of which the fastest counts
BATCH_S = 0.05


def this_machine():
    """(torch, "cuda" or "cpu", the dtype to compute in there); ends in a sentence without Torch."""
    try:
        import torch
    except ImportError:
        sys.exit(f"{Path(sys.argv[0]).name} needs Torch; `make torch` installs it")
    if torch.cuda.is_available():
        return torch, "cuda", torch.bfloat16
    return torch, "cpu", torch.float32


def seconds(run, device):
    """Seconds of a call in the fastest of several batches of calls, back to back."""
    import torch

    finish = torch.cuda.synchronize if device == "cuda" else lambda: None

    def batch_s(calls):
        finish()
        start = time.perf_counter()
        for _ in range(calls):
            run()
        finish()
        return (time.perf_counter() - start) / calls

    batch_s(3)
    calls = max(1, int(BATCH_S / batch_s(1)))
    return min(batch_s(calls) for _ in range(BATCHES))


def graph_of(run):
    """The same kernels, launched by one call."""
    import torch

    graph = torch.cuda.CUDAGraph()
    run()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def roofs(device, dtype):
    """(bytes/s of a large read, or copy if that is faster; flop/s of a large product).

    A processor reads a line before it writes it, so a copy there moves more than it says.
    """
    import torch

    size, edge = (2**30, 8192) if device == "cuda" else (2**27, 1024)
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    read_s = seconds(source.sum, device)
    copied_s = seconds(lambda: target.copy_(source), device)
    a = torch.randn(edge, edge, device=device).to(dtype)
    return max(size / read_s, 2 * size / copied_s), 2 * edge**3 / seconds(lambda: a @ a, device)


def roofs_text(bandwidth, flops):
    """What `roofs` found, in words."""
    return (f"a large read or copy moves {bandwidth / 1e9:,.0f} GB/s, "
            f"a large product makes {flops / 1e12:,.2f} Tflop/s")  # fmt: skip


def write(folder, found):
    """Write measurements.json and provenance.json into the folder, and say so."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "measurements.json").write_text(json.dumps(found, indent=1) + "\n")
    command = " ".join(["python", Path(sys.argv[0]).name, *sys.argv[1:]])
    write_provenance(command, folder, ("measurements.json",), ("numpy", "torch"))
    print(f"wrote {folder / 'measurements.json'} and provenance.json")
