"""Given in lab 03: the links, GPUs and protocols, `require`, and the numerics of a fit."""

import functools
import inspect
import json
import math
import numbers
from pathlib import Path

import numpy as np

# links.json names the source of every number; here stand the numbers alone.
_HARDWARE = json.loads(Path(__file__).with_name("links.json").read_text(encoding="utf-8"))

# {link: {"printed": (number, unit), "c_s": (lowest, highest), "a_s", "busbw_bytes_per_s": too}}
# Vendors print NVLink and PCIe as the sum of both directions in gigabytes, networks as one
# direction in gigabits. Between real boxes the measured columns vary, so each is a range.
LINKS = {
    link: {name: tuple(cell.get("range") or cell["value"]) for name, cell in row.items()}
    for link, row in _HARDWARE["links"].items()
}

# {GPU: {"link": its own, "memory_bytes_per_s": ..., "flops_per_s": ..., "memory_bytes": ...}}
# memory_bytes is what the driver reports, less than the label; flops_per_s is dense BF16.
GPUS = {
    gpu: {name: cell if name == "link" else cell["value"] for name, cell in row.items()}
    for gpu, row in _HARDWARE["gpus"].items()
}

# A decode step reads the weights at about this part of the printed bandwidth, and a large batch
# multiplies at about this part of the printed arithmetic. Assumptions, and the same ones everywhere
# in this lab, so that shares can be compared.
ACHIEVED_BANDWIDTH = 0.8
ACHIEVED_ARITHMETIC = 0.6

# A library switches protocols with the payload. One row each: factor on c and a, part of busbw that
# carries payload, bytes that fill the pipeline before anything comes out.
STRAIGHT_LINE = ((1.0, 1.0, 0.0),)
NCCL_PROTOCOLS = (
    (1.0, 0.45, 0.0),  # LL: a flag with every 4 bytes; no hop waits, half of the traffic is flags
    (4.0, 1.0, 0.0),  # Simple, short: data alone, but every hop waits for a chunk and a fence
    (1.0, 1.0, 10e6),  # Simple, full: about 20 channels with a chunk of 512 KiB each under way
)

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce")

COUNTS = {
    "num_ranks": "ranks",
    "num_nodes": "nodes",
    "gpus_per_node": "GPUs",
    "num_layers": "layers",
    "num_messages": "messages",
    "tokens": "tokens",
    "hidden_size": "elements",
    "top_k": "experts",
}


def require(**quantities):
    """Raise ValueError, naming argument, unit and value, unless every quantity makes sense.

    The name carries the unit: `..._per_s` and `seconds_s` (a measured time) above 0, `..._bytes`
    and `..._s` at least 0, the names in COUNTS whole and at least 1, `link` one of LINKS,
    `operation` one of OPERATIONS. A name that says nothing is not looked at.
    """
    for name, value in quantities.items():
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        finite = number and math.isfinite(value)
        if name in COUNTS:
            good = finite and value == int(value) and value >= 1
            wanted = f"a whole number of {COUNTS[name]}, at least 1"
        elif name in ("link", "operation"):
            known = tuple(LINKS if name == "link" else OPERATIONS)
            good, wanted = value in known, f"one of {', '.join(known)}"
        elif name.endswith("flops_per_s"):
            good, wanted = number and value > 0, "a number of flop/s above 0"
        elif name.endswith("_bytes_per_s"):
            good, wanted = finite and value > 0, "a number of bytes/s above 0"
        elif name == "seconds_s":
            good, wanted = finite and value > 0, "a number of s above 0"
        elif name.endswith(("_bytes", "_s")):
            unit = "bytes" if name.endswith("_bytes") else "s"
            good, wanted = finite and value >= 0, f"a number of {unit}, at least 0"
        else:
            continue
        if not good:
            raise ValueError(f"{name} must be {wanted}, not {value!r}")


def checked(function):
    """Make a function `require` its arguments before it runs, so that its body holds the idea."""
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def require_then_call(*args, **kwargs):
        require(**dict(zip(names, args, strict=False)) | kwargs)
        return function(*args, **kwargs)

    return require_then_call


def check_points(points):
    """Raise ValueError, naming `points`, unless c, a and busbw can be told apart by them."""
    for num_ranks, payload_bytes, seconds_s in points:
        require(num_ranks=num_ranks, payload_bytes=payload_bytes, seconds_s=seconds_s)
        if num_ranks < 2:
            raise ValueError(f"points holds one of {num_ranks} ranks; a point needs 2 or more")
    ranks, payloads = (len({point[i] for point in points}) for i in (0, 1))
    if len(points) < 3 or ranks < 2 or payloads < 2:
        raise ValueError(
            f"points are {len(points)} with {ranks} rank counts and {payloads} payloads (bytes); "
            "c, a and busbw need 3 points with 2 rank counts and 2 payloads among them"
        )


def least_squares(rows):
    """Return [x, y, z], none negative, with f x + g y + h z near 1 for every row [f, g, h]."""
    matrix = np.array(rows, dtype=float)
    scale = np.abs(matrix).max(axis=0)  # c and 1/busbw differ by a factor of a million
    matrix = matrix / scale
    found, kept = np.zeros(3), [0, 1, 2]
    while kept:
        found[:] = 0
        found[kept] = np.linalg.lstsq(matrix[:, kept], np.ones(len(matrix)), rcond=None)[0]
        if found.min() >= 0:
            break
        kept.remove(int(found.argmin()))  # noise: the best non-negative value is 0
    return (found / scale).tolist()


@checked
def busbw_at(num_ranks, measured):
    """Return the bus bandwidth, bytes/s, at num_ranks from measured {num_ranks: busbw}.

    Between two measured rank counts: a straight line in log(ranks), log(busbw). Outside: the
    nearest. measured may be in any order. ValueError when it is empty, and for other bad input.
    """
    for ranks, busbw in measured.items():
        require(num_ranks=ranks, busbw_bytes_per_s=busbw)
    if not measured:
        raise ValueError("measured must hold the bytes/s of one rank count at least, not {}")
    ranks = sorted(measured)
    logs = np.interp(math.log(num_ranks), np.log(ranks), np.log([measured[p] for p in ranks]))
    return math.exp(logs)
