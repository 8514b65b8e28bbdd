"""Lab 03: the communication bill of tensor parallelism.

One sentence in code: an all-reduce costs `c + 2 (p-1) a + 2 (p-1)/p * bytes / busbw` seconds.

    c       seconds to launch it, once, whatever the number of ranks
    a       seconds per hop; a ring makes p-1 hops to reduce and p-1 hops to gather
    busbw   bytes per second that one rank sends over its link, in one direction

Times are seconds, sizes bytes, rates bytes per second; `p` is num_ranks. 1 KiB is 1024 bytes,
1 GB/s is 1e9 bytes per second, 10 Gb/s is 1.25e9. One rank never communicates and pays nothing.
"""

import math
import numbers

import numpy as np

# What the vendor prints, and what people measured. Between real boxes the measured columns vary,
# so each is a range (lowest, highest) in SI units. Vendors print NVLink and PCIe as the sum of both
# directions in gigabytes, networks as one direction in gigabits. Sources: README.md, "The tables".
LINKS = {
    "NVLink 3": {
        "printed": (600, "GB/s both directions"),  # A100
        "c_s": (6.6e-6, 8.4e-6),
        "a_s": (0.6e-6, 1.0e-6),
        "busbw_bytes_per_s": (193e9, 235e9),
    },
    "NVLink 4": {
        "printed": (900, "GB/s both directions"),  # H100, H200
        "c_s": (4.3e-6, 6.6e-6),
        "a_s": (0.6e-6, 0.9e-6),
        "busbw_bytes_per_s": (320e9, 482e9),  # 482 > 450: the switch adds, the formula flatters
    },
    "NVLink 5": {
        "printed": (1800, "GB/s both directions"),  # B200
        "c_s": (6.6e-6, 7.7e-6),
        "a_s": (0.6e-6, 1.3e-6),
        "busbw_bytes_per_s": (534e9, 839e9),
    },
    "PCIe 4": {
        "printed": (62, "GB/s both directions"),  # x16: L40S; 20 for two cards, 1.4 for eight
        "c_s": (1.8e-6, 6.6e-6),
        "a_s": (1.0e-6, 1.4e-6),
        "busbw_bytes_per_s": (1.4e9, 20e9),
    },
    "PCIe 5": {
        "printed": (126, "GB/s both directions"),  # x16: RTX PRO 6000
        "c_s": (3.2e-6, 6.6e-6),
        "a_s": (1.0e-6, 1.5e-6),
        "busbw_bytes_per_s": (25e9, 39e9),
    },
    "10 GbE": {
        "printed": (10, "Gb/s each direction"),  # TCP sockets
        "c_s": (6.6e-6, 8.4e-6),
        "a_s": (30e-6, 39e-6),
        "busbw_bytes_per_s": (1.06e9, 1.25e9),
    },
    "100 GbE": {
        "printed": (100, "Gb/s each direction"),  # RDMA (2.7 us a hop) or TCP sockets (39 us)
        "c_s": (6.6e-6, 8.4e-6),
        "a_s": (2.7e-6, 39e-6),
        "busbw_bytes_per_s": (10.6e9, 12.5e9),
    },
    "400 GbE": {
        "printed": (400, "Gb/s each direction"),  # RDMA
        "c_s": (6.6e-6, 8.4e-6),
        "a_s": (2.7e-6, 14e-6),
        "busbw_bytes_per_s": (42e9, 50e9),
    },
    "InfiniBand NDR": {
        "printed": (400, "Gb/s each direction"),
        "c_s": (6.6e-6, 8.4e-6),
        "a_s": (2.7e-6, 14e-6),
        "busbw_bytes_per_s": (42e9, 50e9),
    },
}

# Memory bandwidth in bytes/s as the vendor prints it, and the link the GPU comes with.
GPUS = {
    "A100": {"memory_bytes_per_s": 2.039e12, "link": "NVLink 3"},
    "H100": {"memory_bytes_per_s": 3.35e12, "link": "NVLink 4"},
    "B200": {"memory_bytes_per_s": 8.0e12, "link": "NVLink 5"},
    "L40S": {"memory_bytes_per_s": 0.864e12, "link": "PCIe 4"},
}

# A decode step reads the weights at about this part of the printed bandwidth. An assumption, and
# the same one everywhere in this lab, so that shares can be compared.
ACHIEVED_BANDWIDTH = 0.8

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

    The name carries the unit: `..._bytes_per_s` above 0, `..._bytes` and `..._s` at least 0, and
    the names in COUNTS whole and at least 1. Call it first: `require(num_ranks=num_ranks, ...)`.
    """
    for name, value in quantities.items():
        number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        good = number and math.isfinite(value)
        if name in COUNTS:
            good = good and value == int(value) and value >= 1
            wanted = f"a whole number of {COUNTS[name]}, at least 1"
        elif name.endswith("_bytes_per_s"):
            good, wanted = good and value > 0, "a number of bytes/s above 0"
        else:
            unit = "bytes" if name.endswith("_bytes") else "s"
            good, wanted = good and value >= 0, f"a number of {unit}, at least 0"
        if not good:
            raise ValueError(f"{name} must be {wanted}, not {value!r}")


# --- Task 1: five functions for a napkin ---------------------------------------------------------


def step_messages(num_layers, tokens, hidden_size, element_bytes):
    """Return (num_messages, payload_bytes) of one forward step of a tensor-parallel transformer.

    Attention and MLP end in one all-reduce each, of the activations [tokens, hidden_size]. In
    decode, tokens is the batch; in prefill, the prompt: the same count, a larger payload. A tuple
    of two numbers; ValueError for bad input. Source: Megatron-LM, arXiv:1909.08053, section 3.
    """
    # BEGIN SOLUTION (task 1)
    require(num_layers=num_layers, tokens=tokens)
    require(hidden_size=hidden_size, element_bytes=element_bytes)
    return 2 * num_layers, tokens * hidden_size * element_bytes
    # END SOLUTION


def ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring all-reduce: c + 2 (p-1) a + 2 (p-1)/p * bytes / busbw.

    payload_bytes is one rank's buffer. One rank: 0.0. ValueError for bad input. Sources:
    nccl-tests doc/PERFORMANCE.md (bytes), NCCL src/graph/tuning.cc (c and a).
    """
    # BEGIN SOLUTION (task 1)
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    hops = 2 * (num_ranks - 1)
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s
    # END SOLUTION


def decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s):
    """Return the seconds one rank needs to read its share of the weights once: W / (p * bandwidth).

    This is a decode step without communication: at small batch nothing else takes as long.
    memory_bytes_per_s is one rank's achieved bandwidth. ValueError for bad input.
    """
    # BEGIN SOLUTION (task 1)
    require(weight_bytes=weight_bytes, num_ranks=num_ranks, memory_bytes_per_s=memory_bytes_per_s)
    return weight_bytes / (num_ranks * memory_bytes_per_s)
    # END SOLUTION


def communication_share(num_messages, message_s, step_s):
    """Return the part of a step, 0 to 1, that goes to its messages; nothing overlaps.

    step_s is the step without communication, on the same ranks. 0.0 when both are 0 s. ValueError
    for bad input.
    """
    # BEGIN SOLUTION (task 1)
    require(num_messages=num_messages, message_s=message_s, step_s=step_s)
    bill_s = num_messages * message_s
    return bill_s / (bill_s + step_s) if bill_s else 0.0
    # END SOLUTION


def crossover_bytes(num_ranks, c_s, a_s, busbw_bytes_per_s):
    """Return the payload at which a ring all-reduce spends as long on latency as on bytes.

    Smaller payloads are latency-bound (decode), larger ones bandwidth-bound (prefill). One rank
    has neither: 0.0. ValueError for bad input.
    """
    # BEGIN SOLUTION (task 1)
    require(num_ranks=num_ranks, c_s=c_s, a_s=a_s, busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    latency_s = c_s + 2 * (num_ranks - 1) * a_s
    return latency_s * busbw_bytes_per_s * num_ranks / (2 * (num_ranks - 1))
    # END SOLUTION


# --- Task 2: within a node, or across? -----------------------------------------------------------


def latency_share(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the part of a ring all-reduce, 0 to 1, that a wire of infinite bandwidth would leave.

    0.0 when it takes no time. ValueError for bad input.
    """
    # BEGIN SOLUTION (task 2)
    total_s = ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    empty_s = ring_all_reduce_s(num_ranks, 0, c_s, a_s, busbw_bytes_per_s)
    return empty_s / total_s if total_s else 0.0
    # END SOLUTION


def link_bytes_per_s(link):
    """Return the bytes/s that a link of LINKS carries in one direction, from what is printed on it.

    ValueError for an unknown link, listing the known ones.
    """
    # BEGIN SOLUTION (task 2)
    if link not in list(LINKS):
        raise ValueError(f"link {link!r} has no bytes/s here; known links: {', '.join(LINKS)}")
    number, unit = LINKS[link]["printed"]
    return number * {"GB/s both directions": 1e9 / 2, "Gb/s each direction": 1e9 / 8}[unit]
    # END SOLUTION


def all_reduce_range_s(link, num_ranks, payload_bytes):
    """Return (best_s, worst_s) of a ring all-reduce over a link of LINKS.

    Best: the lowest c and a, the highest busbw; worst: the opposite. ValueError for an unknown
    link and other bad input.
    """
    # BEGIN SOLUTION (task 2)
    link_bytes_per_s(link)  # refuses an unknown link
    low, high = (
        [LINKS[link][name][end] for name in ("c_s", "a_s", "busbw_bytes_per_s")] for end in (0, 1)
    )
    best_s = ring_all_reduce_s(num_ranks, payload_bytes, low[0], low[1], high[2])
    worst_s = ring_all_reduce_s(num_ranks, payload_bytes, high[0], high[1], low[2])
    return best_s, worst_s
    # END SOLUTION


def tensor_parallel_sides(weight_bytes, memory_bytes_per_s, num_ranks, num_messages, message_s):
    """Return (paid_s, saved_s): what TP over num_ranks costs per decode step, and what it saves.

    Paid: the messages. Saved: the step on one rank less the step on num_ranks. TP makes a token
    faster exactly when paid_s < saved_s. ValueError for bad input.
    """
    # BEGIN SOLUTION (task 2)
    require(num_messages=num_messages, message_s=message_s)
    alone_s = decode_step_s(weight_bytes, 1, memory_bytes_per_s)
    together_s = decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s)
    return num_messages * message_s, alone_s - together_s
    # END SOLUTION


# --- Task 3: the other collectives ---------------------------------------------------------------


def reduce_scatter_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring reduce-scatter, half the trip of a ring all-reduce.

    payload_bytes is the full input of one rank; the launch c is paid once. One rank: 0.0.
    ValueError for bad input. Source: nccl-tests doc/PERFORMANCE.md.
    """
    # BEGIN SOLUTION (task 3)
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    hops = num_ranks - 1
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s
    # END SOLUTION


def all_gather_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring all-gather; payload_bytes is the gathered output.

    One rank: 0.0. ValueError for bad input. Source: nccl-tests doc/PERFORMANCE.md.
    """
    # BEGIN SOLUTION (task 3)
    return reduce_scatter_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    # END SOLUTION


def all_to_all_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of an all-to-all; payload_bytes is all a rank hands out, itself included.

    A rank sends p-1 messages, one to each peer, and keeps 1/p of its bytes. One rank: 0.0.
    ValueError for bad input. Source: nccl-tests doc/PERFORMANCE.md.
    """
    # BEGIN SOLUTION (task 3)
    return reduce_scatter_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    # END SOLUTION


def bus_bandwidth(operation, num_ranks, payload_bytes, seconds_s):
    """Return the bus bandwidth, bytes/s, that nccl-tests prints for a measured collective.

    operation is one of OPERATIONS. ValueError for an unknown operation, 0 s and other bad
    input. Source: nccl-tests doc/PERFORMANCE.md; src/all_reduce.cu `AllReduceGetBw`.
    """
    # BEGIN SOLUTION (task 3)
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, seconds_s=seconds_s)
    if operation not in list(OPERATIONS):
        raise ValueError(f"operation must be one of {', '.join(OPERATIONS)}, not {operation!r}")
    if seconds_s == 0:
        raise ValueError("seconds_s must be above 0 s to divide by, not 0")
    trips = {"all_reduce": 2, "broadcast": 0, "reduce": 0}.get(operation, 1)
    factor = trips * (num_ranks - 1) / num_ranks if trips else 1.0
    return payload_bytes / seconds_s * factor
    # END SOLUTION


# --- Task 4: what engines run instead of a ring --------------------------------------------------


def one_shot_all_reduce_s(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """Return the seconds of one kernel in which every rank reads the buffers of all p-1 peers.

    No hops: kernel_s is the launch with its barriers. One rank: 0.0. ValueError for bad input.
    Source: vLLM csrc/custom_all_reduce.cuh `cross_device_reduce_1stage`.
    """
    # BEGIN SOLUTION (task 4)
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, kernel_s=kernel_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    return kernel_s + (num_ranks - 1) * payload_bytes / busbw_bytes_per_s
    # END SOLUTION


def two_shot_all_reduce_s(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """Return the seconds of one kernel that reduce-scatters and all-gathers, peers read directly.

    Two rounds between the ranks, each priced here at kernel_s; no hops; the bytes of a ring. (An
    assumption: in vLLM both kernels are one launch with two barriers.) One rank: 0.0. ValueError
    for bad input. Source: the same file, `cross_device_reduce_2stage`.
    """
    # BEGIN SOLUTION (task 4)
    require(kernel_s=kernel_s)
    return ring_all_reduce_s(num_ranks, payload_bytes, 2 * kernel_s, 0.0, busbw_bytes_per_s)
    # END SOLUTION


def fastest_all_reduce(num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s):
    """Return (name, seconds) of the fastest of "one_shot", "two_shot" and "ring".

    An engine decides by payload thresholds; they stand where these three lines cross. A tie goes
    to the first in that order. ValueError for bad input.
    """
    # BEGIN SOLUTION (task 4)
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    ring = (num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    costs = {
        "one_shot": one_shot_all_reduce_s(*direct),
        "two_shot": two_shot_all_reduce_s(*direct),
        "ring": ring_all_reduce_s(*ring),
    }
    name = min(costs, key=costs.get)
    return name, costs[name]
    # END SOLUTION


def hierarchical_all_reduce_s(
    num_nodes,
    gpus_per_node,
    payload_bytes,
    c_s,
    node_a_s,
    node_busbw_bytes_per_s,
    network_a_s,
    network_busbw_bytes_per_s,
):
    """Return the seconds of an all-reduce over nodes x GPUs whose three stages follow each other.

    Reduce-scatter inside each node; all-reduce of each GPU's 1/g of the payload with its peers on
    the other nodes, over its own network card; all-gather inside each node. One launch c. One
    node: the plain ring inside it; one GPU per node: the plain ring across. ValueError for bad
    input. Source: stas00/ml-engineering network/README.md, "Inter-node speed depends on
    intra-node speed".
    """
    # BEGIN SOLUTION (task 4)
    require(num_nodes=num_nodes, gpus_per_node=gpus_per_node, payload_bytes=payload_bytes, c_s=c_s)
    require(node_a_s=node_a_s, node_busbw_bytes_per_s=node_busbw_bytes_per_s)
    require(network_a_s=network_a_s, network_busbw_bytes_per_s=network_busbw_bytes_per_s)
    if num_nodes * gpus_per_node == 1:
        return 0.0
    node = (gpus_per_node, payload_bytes, 0.0, node_a_s, node_busbw_bytes_per_s)
    network = (num_nodes, payload_bytes / gpus_per_node, 0.0, network_a_s)
    return (
        c_s
        + reduce_scatter_s(*node)
        + ring_all_reduce_s(*network, network_busbw_bytes_per_s)
        + all_gather_s(*node)
    )
    # END SOLUTION


# --- Task 5: experts -----------------------------------------------------------------------------


def expert_parallel_bytes(
    tokens, top_k, hidden_size, dispatch_element_bytes=1 + 4 / 128, combine_element_bytes=2
):
    """Return (dispatch_bytes, combine_bytes) that one rank sends and gets back in one MoE layer.

    Every token goes to top_k experts and comes back from each. By default in FP8 with a 4-byte
    scale per 128 elements on the way out and in BF16 on the way back. ValueError for bad input.
    Source: DeepEP docs/legacy.md, "Low-latency kernels".
    """
    # BEGIN SOLUTION (task 5)
    require(tokens=tokens, top_k=top_k, hidden_size=hidden_size)
    require(dispatch_element_bytes=dispatch_element_bytes)
    require(combine_element_bytes=combine_element_bytes)
    elements = tokens * top_k * hidden_size
    return elements * dispatch_element_bytes, elements * combine_element_bytes
    # END SOLUTION


# --- Task 6: three measurements in, any all-reduce out -------------------------------------------


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


def protocol_times_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols):
    """Return a list with the seconds of each protocol: a ring of payload + fill bytes.

    A row of protocols is (factor on c and a, part of busbw, fill in bytes): what fills the pipeline
    travels round like the payload behind it. One rank: zeros. ValueError for bad input. Source:
    NCCL src/graph/tuning.cc, latencies and bandwidth factors per protocol.
    """
    # BEGIN SOLUTION (task 6)
    require(c_s=c_s, a_s=a_s, busbw_bytes_per_s=busbw_bytes_per_s, payload_bytes=payload_bytes)
    return [
        ring_all_reduce_s(
            num_ranks, payload_bytes + fill, factor * c_s, factor * a_s, part * busbw_bytes_per_s
        )
        for factor, part, fill in protocols
    ]
    # END SOLUTION


def predict_all_reduce_s(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols=NCCL_PROTOCOLS
):
    """Return the seconds of a library's all-reduce: the fastest of its protocols.

    ValueError for bad input. Source: NCCL src/graph/tuning.cc, which chooses in the same way.
    """
    # BEGIN SOLUTION (task 6)
    constants = (c_s, a_s, busbw_bytes_per_s)
    return min(protocol_times_s(num_ranks, payload_bytes, *constants, protocols))
    # END SOLUTION


def calibrate(points, protocols=NCCL_PROTOCOLS):
    """Return (c_s, a_s, busbw_bytes_per_s) fitted to measured all-reduces.

    points: at least three (num_ranks, payload_bytes, seconds_s), with two rank counts and two
    payloads among them; two tiny payloads and a huge one fix the three best. Divided by its
    seconds, each point is a linear equation that says 1: least_squares weighs relative errors. Its
    coefficients depend on the protocol, so begin with STRAIGHT_LINE, then let each point take the
    protocol that is fastest with the constants found, and fit again: two to four fits settle it.
    ValueError that says which, for too few points, for one rank count or one payload alone, for
    1 rank, 0 s or points that give no busbw, and for other bad input.
    """
    # BEGIN SOLUTION (task 6)
    for num_ranks, payload_bytes, seconds_s in points:
        require(num_ranks=num_ranks, payload_bytes=payload_bytes, seconds_s=seconds_s)
        if num_ranks < 2 or seconds_s == 0:
            point = f"({num_ranks} ranks, {payload_bytes} bytes, {seconds_s} s)"
            raise ValueError(f"points holds {point}; a point needs 2 ranks or more and above 0 s")
    ranks, payloads = (len({point[i] for point in points}) for i in (0, 1))
    if len(points) < 3 or ranks < 2 or payloads < 2:
        raise ValueError(
            f"points are {len(points)} with {ranks} rank counts and {payloads} payloads (bytes); "
            "c, a and busbw need 3 points with 2 rank counts and 2 payloads among them"
        )
    chosen = [STRAIGHT_LINE[0]] * len(points)
    for _ in range(4):  # two or three settle it
        rows = []
        for (num_ranks, payload_bytes, seconds_s), (factor, part, fill) in zip(
            points, chosen, strict=True
        ):
            hops = 2 * (num_ranks - 1)
            row = [factor, factor * hops, hops / num_ranks * (payload_bytes + fill) / part]
            rows.append([entry / seconds_s for entry in row])
        c_s, a_s, s_per_byte = least_squares(rows)
        if s_per_byte == 0:
            raise ValueError("points give no busbw (bytes/s): the large payload is not the slowest")
        chosen = []
        for num_ranks, payload_bytes, _seconds_s in points:
            times = protocol_times_s(num_ranks, payload_bytes, c_s, a_s, 1 / s_per_byte, protocols)
            chosen.append(protocols[times.index(min(times))])
    return c_s, a_s, 1 / s_per_byte
    # END SOLUTION


def busbw_at(num_ranks, measured):
    """Return the bus bandwidth, bytes/s, at num_ranks from measured {num_ranks: busbw}.

    Between two measured rank counts: a straight line in log(ranks), log(busbw). Outside: the
    nearest. measured may be in any order. ValueError when it is empty, and for other bad input.
    """
    # BEGIN SOLUTION (task 6)
    require(num_ranks=num_ranks)
    for ranks, busbw in measured.items():
        require(num_ranks=ranks, busbw_bytes_per_s=busbw)
    if not measured:
        raise ValueError("measured must hold the bytes/s of one rank count at least, not {}")
    ranks = sorted(measured)
    logs = np.interp(math.log(num_ranks), np.log(ranks), np.log([measured[p] for p in ranks]))
    return math.exp(logs)
    # END SOLUTION
