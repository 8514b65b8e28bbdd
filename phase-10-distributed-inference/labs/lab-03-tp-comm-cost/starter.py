# lab-03 starter: write where NotImplementedError stands. [fda48c9bb0cf]
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
    raise NotImplementedError(
        "lab-03 · step_messages is yours to write (about 3 lines). "
        "Chapter: README.md, task 1"
    )


def ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring all-reduce: c + 2 (p-1) a + 2 (p-1)/p * bytes / busbw.

    payload_bytes is one rank's buffer. One rank: 0.0. ValueError for bad input. Sources:
    nccl-tests doc/PERFORMANCE.md (bytes), NCCL src/graph/tuning.cc (c and a).
    """
    raise NotImplementedError(
        "lab-03 · ring_all_reduce_s is yours to write (about 6 lines). "
        "Chapter: README.md, task 1"
    )


def decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s):
    """Return the seconds one rank needs to read its share of the weights once: W / (p * bandwidth).

    This is a decode step without communication: at small batch nothing else takes as long.
    memory_bytes_per_s is one rank's achieved bandwidth. ValueError for bad input.
    """
    raise NotImplementedError(
        "lab-03 · decode_step_s is yours to write (about 2 lines). "
        "Chapter: README.md, task 1"
    )


def communication_share(num_messages, message_s, step_s):
    """Return the part of a step, 0 to 1, that goes to its messages; nothing overlaps.

    step_s is the step without communication, on the same ranks. 0.0 when both are 0 s. ValueError
    for bad input.
    """
    raise NotImplementedError(
        "lab-03 · communication_share is yours to write (about 3 lines). "
        "Chapter: README.md, task 1"
    )


def crossover_bytes(num_ranks, c_s, a_s, busbw_bytes_per_s):
    """Return the payload at which a ring all-reduce spends as long on latency as on bytes.

    Smaller payloads are latency-bound (decode), larger ones bandwidth-bound (prefill). One rank
    has neither: 0.0. ValueError for bad input.
    """
    raise NotImplementedError(
        "lab-03 · crossover_bytes is yours to write (about 5 lines). "
        "Chapter: README.md, task 1"
    )


# --- Task 2: within a node, or across? -----------------------------------------------------------


def latency_share(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the part of a ring all-reduce, 0 to 1, that a wire of infinite bandwidth would leave.

    0.0 when it takes no time. ValueError for bad input.
    """
    raise NotImplementedError(
        "lab-03 · latency_share is yours to write (about 3 lines). "
        "Chapter: README.md, task 2"
    )


def link_bytes_per_s(link):
    """Return the bytes/s that a link of LINKS carries in one direction, from what is printed on it.

    ValueError for an unknown link, listing the known ones.
    """
    raise NotImplementedError(
        "lab-03 · link_bytes_per_s is yours to write (about 4 lines). "
        "Chapter: README.md, task 2"
    )


def all_reduce_range_s(link, num_ranks, payload_bytes):
    """Return (best_s, worst_s) of a ring all-reduce over a link of LINKS.

    Best: the lowest c and a, the highest busbw; worst: the opposite. ValueError for an unknown
    link and other bad input.
    """
    raise NotImplementedError(
        "lab-03 · all_reduce_range_s is yours to write (about 7 lines). "
        "Chapter: README.md, task 2"
    )


def tensor_parallel_sides(weight_bytes, memory_bytes_per_s, num_ranks, num_messages, message_s):
    """Return (paid_s, saved_s): what TP over num_ranks costs per decode step, and what it saves.

    Paid: the messages. Saved: the step on one rank less the step on num_ranks. TP makes a token
    faster exactly when paid_s < saved_s. ValueError for bad input.
    """
    raise NotImplementedError(
        "lab-03 · tensor_parallel_sides is yours to write (about 4 lines). "
        "Chapter: README.md, task 2"
    )


# --- Task 3: the other collectives ---------------------------------------------------------------


def reduce_scatter_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring reduce-scatter, half the trip of a ring all-reduce.

    payload_bytes is the full input of one rank; the launch c is paid once. One rank: 0.0.
    ValueError for bad input. Source: nccl-tests doc/PERFORMANCE.md.
    """
    raise NotImplementedError(
        "lab-03 · reduce_scatter_s is yours to write (about 6 lines). "
        "Chapter: README.md, task 3"
    )


def all_gather_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring all-gather; payload_bytes is the gathered output.

    One rank: 0.0. ValueError for bad input. Source: nccl-tests doc/PERFORMANCE.md.
    """
    raise NotImplementedError(
        "lab-03 · all_gather_s is yours to write (about 1 line). "
        "Chapter: README.md, task 3"
    )


def all_to_all_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of an all-to-all; payload_bytes is all a rank hands out, itself included.

    A rank sends p-1 messages, one to each peer, and keeps 1/p of its bytes. One rank: 0.0.
    ValueError for bad input. Source: nccl-tests doc/PERFORMANCE.md.
    """
    raise NotImplementedError(
        "lab-03 · all_to_all_s is yours to write (about 1 line). "
        "Chapter: README.md, task 3"
    )


def bus_bandwidth(operation, num_ranks, payload_bytes, seconds_s):
    """Return the bus bandwidth, bytes/s, that nccl-tests prints for a measured collective.

    operation is one of OPERATIONS. ValueError for an unknown operation, 0 s and other bad
    input. Source: nccl-tests doc/PERFORMANCE.md; src/all_reduce.cu `AllReduceGetBw`.
    """
    raise NotImplementedError(
        "lab-03 · bus_bandwidth is yours to write (about 8 lines). "
        "Chapter: README.md, task 3"
    )


# --- Task 4: what engines run instead of a ring --------------------------------------------------


def one_shot_all_reduce_s(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """Return the seconds of one kernel in which every rank reads the buffers of all p-1 peers.

    No hops: kernel_s is the launch with its barriers. One rank: 0.0. ValueError for bad input.
    Source: vLLM csrc/custom_all_reduce.cuh `cross_device_reduce_1stage`.
    """
    raise NotImplementedError(
        "lab-03 · one_shot_all_reduce_s is yours to write (about 5 lines). "
        "Chapter: README.md, task 4"
    )


def two_shot_all_reduce_s(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """Return the seconds of one kernel that reduce-scatters and all-gathers, peers read directly.

    Two rounds between the ranks, each priced here at kernel_s; no hops; the bytes of a ring. (An
    assumption: in vLLM both kernels are one launch with two barriers.) One rank: 0.0. ValueError
    for bad input. Source: the same file, `cross_device_reduce_2stage`.
    """
    raise NotImplementedError(
        "lab-03 · two_shot_all_reduce_s is yours to write (about 2 lines). "
        "Chapter: README.md, task 4"
    )


def fastest_all_reduce(num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s):
    """Return (name, seconds) of the fastest of "one_shot", "two_shot" and "ring".

    An engine decides by payload thresholds; they stand where these three lines cross. A tie goes
    to the first in that order. ValueError for bad input.
    """
    raise NotImplementedError(
        "lab-03 · fastest_all_reduce is yours to write (about 9 lines). "
        "Chapter: README.md, task 4"
    )


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
    raise NotImplementedError(
        "lab-03 · hierarchical_all_reduce_s is yours to write (about 13 lines). "
        "Chapter: README.md, task 4"
    )


# --- Task 5: experts -----------------------------------------------------------------------------


def expert_parallel_bytes(
    tokens, top_k, hidden_size, dispatch_element_bytes=1 + 4 / 128, combine_element_bytes=2
):
    """Return (dispatch_bytes, combine_bytes) that one rank sends and gets back in one MoE layer.

    Every token goes to top_k experts and comes back from each. By default in FP8 with a 4-byte
    scale per 128 elements on the way out and in BF16 on the way back. ValueError for bad input.
    Source: DeepEP docs/legacy.md, "Low-latency kernels".
    """
    raise NotImplementedError(
        "lab-03 · expert_parallel_bytes is yours to write (about 5 lines). "
        "Chapter: README.md, task 5"
    )


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
    raise NotImplementedError(
        "lab-03 · protocol_times_s is yours to write (about 7 lines). "
        "Chapter: README.md, task 6"
    )


def predict_all_reduce_s(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols=NCCL_PROTOCOLS
):
    """Return the seconds of a library's all-reduce: the fastest of its protocols.

    ValueError for bad input. Source: NCCL src/graph/tuning.cc, which chooses in the same way.
    """
    raise NotImplementedError(
        "lab-03 · predict_all_reduce_s is yours to write (about 2 lines). "
        "Chapter: README.md, task 6"
    )


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
    raise NotImplementedError(
        "lab-03 · calibrate is yours to write (about 28 lines). "
        "Chapter: README.md, task 6"
    )


def busbw_at(num_ranks, measured):
    """Return the bus bandwidth, bytes/s, at num_ranks from measured {num_ranks: busbw}.

    Between two measured rank counts: a straight line in log(ranks), log(busbw). Outside: the
    nearest. measured may be in any order. ValueError when it is empty, and for other bad input.
    """
    raise NotImplementedError(
        "lab-03 · busbw_at is yours to write (about 8 lines). "
        "Chapter: README.md, task 6"
    )
