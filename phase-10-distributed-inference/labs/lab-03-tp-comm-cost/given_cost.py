"""Given in lab 03: the links, GPUs and protocols, `require`, and the numerics of a fit."""

import bisect
import functools
import inspect
import json
import math
from pathlib import Path

import arguments

# hardware.json names the source of every number, and holds more than this lab shows.
_HARDWARE = json.loads(Path(__file__).with_name("hardware.json").read_text(encoding="utf-8"))


def _range(row, name):
    """(lowest, highest) of microseconds, as seconds; of bus bandwidths by ranks, as bytes/s."""
    if name == "busbw_gb_per_s":
        speeds = [speed for interval in row[name].values() for speed in interval]
        return min(speeds) * 1e9, max(speeds) * 1e9
    return round(row[name][0] / 1e6, 12), round(row[name][-1] / 1e6, 12)  # 6.6e-06 as it reads


# {link: {"printed": (number, unit), "c_s": (lowest, highest), "a_s", "busbw_bytes_per_s": too}}
# Vendors print NVLink and PCIe as the sum of both directions in gigabytes, networks as one
# direction in gigabits. Between real boxes the measured columns vary, so each is a range.
LINKS = {
    link: {
        "printed": tuple(row["printed"]),
        "c_s": _range(row, "c_us"),
        "a_s": _range(row, "a_us"),
        "busbw_bytes_per_s": _range(row, "busbw_gb_per_s"),
    }
    for link, row in _HARDWARE["links"].items()
    if "printed" in row
}

# {GPU: {"link": its own, "memory_bytes_per_s": ..., "flops_per_s": ..., "memory_bytes": ...}}
# memory_bytes is what the driver reports, less than the label; flops_per_s is dense BF16.
GPUS = {
    gpu: {
        "link": row["link"],
        "memory_bytes_per_s": row["memory_gb_per_s"] * 1e9,
        "flops_per_s": row["dense_tflops"]["16"] * 1e12,
        "memory_bytes": row["reported_mib"] * 2**20,
    }
    for gpu in ("A100", "H100", "B200", "L40S")
    for row in [_HARDWARE["gpus"][gpu.lower()]]
}

# The most of the printed bandwidth that reading weights reaches, and of the printed arithmetic that
# large products reach: the best ends of the capstone's ranges. With them a time is a floor: that no
# H100 gets more is our judgement of published rows (an A100 got 271 of 312 TFLOP/s:
# stas00/ml-engineering compute/accelerator/README.md).
ACHIEVED_BANDWIDTH = _HARDWARE["reached"]["memory_share"][0]
ACHIEVED_ARITHMETIC = _HARDWARE["reached"]["flops_share"][0]

# A library switches protocols with the payload. One row each: factor on c and a, part of busbw that
# carries payload, bytes that fill the pipeline before anything comes out.
STRAIGHT_LINE = ((1.0, 1.0, 0.0),)  # its one row, of a library without protocols
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


# How a name ends: what the argument must be (its unit in words), whether a value is that.
_ABOVE_ZERO, _ZERO_OR_MORE = arguments.ABOVE_ZERO[1], arguments.ZERO_OR_MORE[1]
ENDINGS = {
    "flops_per_s": ("a number of flop/s above 0", lambda v: v == math.inf or _ABOVE_ZERO(v)),
    "_bytes_per_s": ("a number of bytes/s above 0", _ABOVE_ZERO),
    "seconds_s": ("a number of s above 0", _ABOVE_ZERO),  # a measured time
    "_bytes": ("a number of bytes, at least 0", _ZERO_OR_MORE),
    "_s": ("a number of s, at least 0", _ZERO_OR_MORE),
}


def kind_of(name):
    """What an argument of that name must be, as arguments.checked wants it; None: anything.

    The names in COUNTS are whole and at least 1, `link` is one of LINKS, `operation` of OPERATIONS.
    """
    if name in COUNTS:
        return f"a whole number of {COUNTS[name]}, at least 1", arguments.COUNT[1]
    if name in ("link", "operation"):
        known = tuple(LINKS if name == "link" else OPERATIONS)
        return f"one of {', '.join(known)}", known.__contains__
    return next((kind for end, kind in ENDINGS.items() if name.endswith(end)), None)


def require(**quantities):
    """Raise ValueError, naming argument, unit and value, unless every quantity makes sense."""
    for name, value in quantities.items():
        if kind := kind_of(name):
            arguments.must_be(kind, name, value)


def checked(function):
    """Make a function `require` its arguments before it runs, so that its body holds the idea."""
    kinds = {name: kind_of(name) for name in inspect.signature(function).parameters}
    return arguments.checked(**{name: kind for name, kind in kinds.items() if kind})(function)


def free_alone(function):
    """Make a collective over one rank cost 0.0: one rank has nobody to send to."""
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def ask_unless_alone(*args, **kwargs):
        given = dict(zip(names, args, strict=False)) | kwargs
        ranks = given.get("num_ranks") or given["num_nodes"] * given["gpus_per_node"]
        return function(*args, **kwargs) if ranks > 1 else 0.0

    return ask_unless_alone


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
    scale = [max(map(abs, column)) or 1.0 for column in zip(*rows, strict=True)]
    columns = [[row[k] / scale[k] for row in rows] for k in range(3)]  # c and 1/busbw: 1e6 apart
    found, kept = [0.0, 0.0, 0.0], [0, 1, 2]
    while kept:
        best = _nearest_to_one([columns[k] for k in kept])
        found = [best[kept.index(k)] if k in kept else 0.0 for k in range(3)]
        if min(best) >= 0:
            break
        kept.remove(kept[best.index(min(best))])  # noise: the best non-negative value is 0
    return [value / unit for value, unit in zip(found, scale, strict=True)]


def _nearest_to_one(columns):
    """The factors that bring the sum of the columns nearest to 1 in every row (Gram-Schmidt)."""
    basis, triangle, residual = [], [], [1.0] * len(columns[0])
    for column in columns:
        parts = [0.0] * len(basis)
        for k in [*range(len(basis))] * 2:  # twice: what rounding left of the first time goes too
            part = _dot(basis[k], column)
            parts[k] += part
            column = [value - part * unit for value, unit in zip(column, basis[k], strict=True)]
        length = math.sqrt(_dot(column, column))
        if length < 1e-12:  # it adds nothing to the columns before it
            basis.append([0.0] * len(column))
            triangle.append([*parts, 1.0])
            continue
        basis.append([value / length for value in column])
        triangle.append([*parts, length])
    factors = [_dot(unit, residual) for unit in basis]
    for k in reversed(range(len(factors))):
        factors[k] /= triangle[k][k]
        for earlier in range(k):
            factors[earlier] -= triangle[k][earlier] * factors[k]
    return factors


def _dot(one, other):
    return math.fsum(a * b for a, b in zip(one, other, strict=True))


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
    above = bisect.bisect_left(ranks, num_ranks)
    below = ranks[max(above - 1, 0)]
    above = ranks[min(above, len(ranks) - 1)]
    if above in (below, num_ranks):
        return float(measured[above])
    way = math.log(num_ranks / below) / math.log(above / below)
    return measured[below] * (measured[above] / measured[below]) ** way
