"""Lab 03: the communication bill of tensor parallelism.

What does one message cost, how many are there in a step, and what is the step they are added to?
Three constants describe the machine:

    c       seconds to launch a collective, once, whatever the number of ranks
    a       seconds per hop, from a rank to its neighbour
    busbw   bytes per second that one rank sends over its link, in one direction

Times are seconds, sizes bytes, rates bytes per second; `p` is num_ranks. 1 KiB is 1024 bytes,
1 GB/s is 1e9 bytes per second, 10 Gb/s is 1.25e9. One rank never communicates and pays nothing.
Where a tuple is returned, a list is as good.
The file given_cost.py holds what you read and do not write.
"""

import math

from given_cost import (  # noqa: F401 (whoever imports this file finds all of it here)
    ACHIEVED_ARITHMETIC,
    ACHIEVED_BANDWIDTH,
    GPUS,
    LINKS,
    NCCL_PROTOCOLS,
    OPERATIONS,
    STRAIGHT_LINE,
    busbw_at,
    check_points,
    checked,
    free_alone,
    least_squares,
    require,
)

# --- Task 1: five functions for a napkin ---------------------------------------------------------


@checked
def step_messages(num_layers, tokens, hidden_size, element_bytes):
    """Return (num_messages, payload_bytes of each) of a tensor-parallel transformer's forward step.

    Attention and MLP end in one all-reduce each, of the activations [tokens, hidden_size]. In
    decode, tokens is the batch; in prefill, the prompt. A tuple of two whole numbers, since
    element_bytes is one, too. Source: Megatron-LM, arXiv:1909.08053, section 3.
    """
    # BEGIN SOLUTION (task 1)
    return 2 * num_layers, tokens * hidden_size * element_bytes
    # END SOLUTION


@checked
@free_alone
def ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of an all-reduce around a ring of num_ranks.

    payload_bytes is one rank's buffer. (One rank: 0.0, by @free_alone.) Sources: nccl-tests
    doc/PERFORMANCE.md (bytes), NCCL src/graph/tuning.cc (c and a).
    """
    # BEGIN SOLUTION (task 1)
    hops = 2 * (num_ranks - 1)
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s
    # END SOLUTION


@checked
def decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s):
    """Return the seconds of a decode step at small batch, without communication.

    Nothing takes as long as reading the weights once, each rank its own share. weight_bytes is
    the whole model, memory_bytes_per_s one rank's achieved bandwidth.
    """
    # BEGIN SOLUTION (task 1)
    return weight_bytes / (num_ranks * memory_bytes_per_s)
    # END SOLUTION


@checked
def communication_share(num_messages, message_s, step_s):
    """Return the part of a step, 0 to 1, that goes to its messages; nothing overlaps.

    step_s is the step without communication, on the same ranks. 0.0 when both are 0 s.
    """
    # BEGIN SOLUTION (task 1)
    bill_s = num_messages * message_s
    return bill_s / (bill_s + step_s) if bill_s else 0.0
    # END SOLUTION


@checked
@free_alone
def crossover_bytes(num_ranks, c_s, a_s, busbw_bytes_per_s):
    """Return the payload at which a ring all-reduce spends as long on latency as on bytes.

    Smaller payloads are latency-bound, larger ones bandwidth-bound. One rank has neither: 0.0.
    """
    # BEGIN SOLUTION (task 1)
    latency_s = c_s + 2 * (num_ranks - 1) * a_s
    return latency_s * busbw_bytes_per_s * num_ranks / (2 * (num_ranks - 1))
    # END SOLUTION


@checked
def latency_share(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the part of a ring all-reduce, 0 to 1, that a wire of infinite bandwidth would leave.

    (Given; calls your ring_all_reduce_s.) 0.0 when the all-reduce takes no time.
    """
    total_s = ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    empty_s = ring_all_reduce_s(num_ranks, 0, c_s, a_s, busbw_bytes_per_s)
    return empty_s / total_s if total_s else 0.0


# --- Task 2: the other collectives ---------------------------------------------------------------


@checked
@free_alone
def reduce_scatter_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring reduce-scatter, half the trip of a ring all-reduce.

    payload_bytes is the full input of one rank; the launch c is paid once. One rank: 0.0. Source:
    nccl-tests doc/PERFORMANCE.md.
    """
    # BEGIN SOLUTION (task 2)
    hops = num_ranks - 1
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s
    # END SOLUTION


def all_gather_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of a ring all-gather; payload_bytes is the gathered output.

    (Given; calls your reduce_scatter_s: the same trip, and nobody adds.)
    """
    return reduce_scatter_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)


@checked
def all_to_all_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """Return the seconds of an all-to-all; payload_bytes is all a rank hands out, itself included.

    (Given: a rank sends p-1 messages, one to each peer, and keeps 1/p of its bytes. Nothing is
    passed on, so the messages are under way together and wait for one hop.) Source: nccl-tests
    doc/PERFORMANCE.md; NCCL's all-to-all is p sends and receives in one group.
    """
    if num_ranks == 1:
        return 0.0
    sent = (num_ranks - 1) / num_ranks * payload_bytes
    return c_s + a_s + sent / busbw_bytes_per_s


@checked
def bus_bandwidth(operation, num_ranks, payload_bytes, seconds_s):
    """Return the bus bandwidth, bytes/s, that nccl-tests prints for a measured collective.

    The bytes per second that a rank's link must have carried, so that the number can be compared
    with the link's rate whatever the operation and the ranks. operation is one of OPERATIONS. A
    broadcast and a reduce pass every byte through every link once, and are counted so for one rank
    too. Source: nccl-tests doc/PERFORMANCE.md; src/all_reduce.cu `AllReduceGetBw`.
    """
    # BEGIN SOLUTION (task 2)
    part = (num_ranks - 1) / num_ranks
    sent = {"all_reduce": 2 * part, "broadcast": 1, "reduce": 1}.get(operation, part)
    return payload_bytes / seconds_s * sent
    # END SOLUTION


# --- Task 3: what engines run instead of a ring --------------------------------------------------


@checked
@free_alone
def one_shot_all_reduce_s(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """Return the seconds of one kernel in which every rank reads the buffers of all p-1 peers.

    No hops: kernel_s is the launch with its barriers. Source: vLLM
    csrc/custom_all_reduce.cuh `cross_device_reduce_1stage`.
    """
    # BEGIN SOLUTION (task 3)
    return kernel_s + (num_ranks - 1) * payload_bytes / busbw_bytes_per_s
    # END SOLUTION


@checked
@free_alone
def two_shot_all_reduce_s(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """Return the seconds of a reduce-scatter and an all-gather, peers read directly.

    Each of the two rounds is priced at kernel_s; no hops; the bytes of a ring. (That is on the safe
    side: in vLLM both rounds are in one launch, with two barriers.) Source: the same file,
    `cross_device_reduce_2stage`.
    """
    # BEGIN SOLUTION (task 3)
    return ring_all_reduce_s(num_ranks, payload_bytes, 2 * kernel_s, 0.0, busbw_bytes_per_s)
    # END SOLUTION


@checked
def fastest_all_reduce(num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s):
    """Return (name, seconds) of the fastest of "one_shot", "two_shot" and "ring".

    An engine decides by payload thresholds; they stand where these three lines cross. A tie goes
    to the first in that order.
    """
    # BEGIN SOLUTION (task 3)
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    costs = {
        "one_shot": one_shot_all_reduce_s(*direct),
        "two_shot": two_shot_all_reduce_s(*direct),
        "ring": ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s),
    }
    name = min(costs, key=costs.get)
    return name, costs[name]
    # END SOLUTION


@checked
@free_alone
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
    node: the plain ring inside it; one GPU per node: the plain ring across. One GPU in all: 0.0.
    Source: stas00/ml-engineering network/README.md, "Inter-node speed depends on intra-node speed".
    """
    # BEGIN SOLUTION (task 3)
    node = (gpus_per_node, payload_bytes, 0.0, node_a_s, node_busbw_bytes_per_s)
    network = (0.0, network_a_s, network_busbw_bytes_per_s)
    across_s = ring_all_reduce_s(num_nodes, payload_bytes / gpus_per_node, *network)
    return c_s + reduce_scatter_s(*node) + across_s + all_gather_s(*node)
    # END SOLUTION


# --- Experts -----------------------------------------------------------------------------


@checked
def expert_parallel_bytes(
    tokens, top_k, hidden_size, dispatch_element_bytes=1 + 4 / 128, combine_element_bytes=2
):
    """Return (dispatch_bytes, combine_bytes) that one rank sends and gets back in one MoE layer.

    (Given.) Every token goes to top_k experts and comes back from each. By default in FP8 with a
    4-byte scale per 128 elements on the way out and in BF16 on the way back. Source: DeepEP
    docs/legacy.md, "Low-latency kernels".
    """
    elements = tokens * top_k * hidden_size
    return elements * dispatch_element_bytes, elements * combine_element_bytes


# --- Task 4: three measurements in, any all-reduce out -------------------------------------------


@checked
def predict_all_reduce_s(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols=NCCL_PROTOCOLS
):
    """Return the seconds of a library's all-reduce: the fastest of its protocols.

    A row of protocols is (factor on c and a, part of busbw, fill in bytes). Each is a ring: what
    fills the pipeline is sent round like payload. One rank: 0.0. Source: NCCL src/graph/tuning.cc,
    latencies and bandwidth factors per protocol; it chooses in the same way.
    """
    # BEGIN SOLUTION (task 4)
    return min(
        ring_all_reduce_s(
            num_ranks, payload_bytes + fill, factor * c_s, factor * a_s, part * busbw_bytes_per_s
        )
        for factor, part, fill in protocols
    )
    # END SOLUTION


def equation(point, protocol):
    """Return [f, g, h], the point as the linear equation f c + g a + h / busbw = 1.

    point: (num_ranks, payload_bytes, seconds_s), measured; protocol: one row of protocols. The
    measured seconds are divided out, so that every point weighs the same however long it took.
    """
    # BEGIN SOLUTION (task 4)
    (num_ranks, payload_bytes, seconds_s), (factor, part, fill) = point, protocol
    hops = 2 * (num_ranks - 1)
    terms = factor, factor * hops, hops / num_ranks * (payload_bytes + fill) / part
    return [term / seconds_s for term in terms]
    # END SOLUTION


def calibrate(points, protocols=NCCL_PROTOCOLS):
    """Return (c_s, a_s, busbw_bytes_per_s) fitted to all of the measured points.

    points: at least three (num_ranks, payload_bytes, seconds_s), with two rank counts and two
    payloads among them; two tiny payloads and a huge one fix the three best. Call check_points
    first. The equations depend on the protocol that each point was measured with, which nobody
    tells you. So begin with STRAIGHT_LINE[0] for every point, fit, let each point take the
    protocol that is fastest with the constants found, and fit again: four fits are enough.
    ValueError for points that check_points refuses or that give no busbw.
    """
    # BEGIN SOLUTION (task 4)
    check_points(points)
    chosen = [STRAIGHT_LINE[0]] * len(points)
    for _ in range(4):
        rows = [equation(point, row) for point, row in zip(points, chosen, strict=True)]
        c_s, a_s, s_per_byte = least_squares(rows)
        if s_per_byte == 0:
            raise ValueError("points give no busbw (bytes/s): the large payload is not the slowest")
        chosen = [fastest_protocol(point, c_s, a_s, 1 / s_per_byte, protocols) for point in points]
    return c_s, a_s, 1 / s_per_byte
    # END SOLUTION


def fastest_protocol(point, c_s, a_s, busbw_bytes_per_s, protocols):
    """Return the row of protocols that is fastest for a point. (Given.)"""
    ring = (*point[:2], c_s, a_s, busbw_bytes_per_s)
    return min(protocols, key=lambda row: predict_all_reduce_s(*ring, [row]))


# --- Task 5: within a node, or across? -----------------------------------------------------------


@checked
def step_s(
    weight_bytes, num_ranks, memory_bytes_per_s, tokens=1, flops_per_s=math.inf, element_bytes=2
):
    """Return the seconds of a step over `tokens` tokens, without communication, under two roofs.

    A rank reads its share of the weights once, however many tokens there are, and multiplies each
    token by every weight of its share: a multiplication and an addition, two flops. It does both
    at the same time. A weight has element_bytes; flops_per_s is one rank's achieved arithmetic.
    The attention over earlier tokens, small unless the context is long, is left out. Source:
    Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.
    """
    # BEGIN SOLUTION (task 5)
    reading_s = decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s)
    flops = 2 * tokens * weight_bytes / element_bytes
    return max(reading_s, flops / (num_ranks * flops_per_s))
    # END SOLUTION


@checked
def link_bytes_per_s(link):
    """Return the bytes/s that a link of LINKS carries in one direction, from what is printed on it.

    LINKS[link]["printed"] is (number, unit); the unit is "GB/s both directions" or
    "Gb/s each direction".
    """
    # BEGIN SOLUTION (task 5)
    number, unit = LINKS[link]["printed"]
    return number * {"GB/s both directions": 1e9 / 2, "Gb/s each direction": 1e9 / 8}[unit]
    # END SOLUTION


@checked
def all_reduce_range_s(link, num_ranks, payload_bytes):
    """Return (best_s, worst_s) of a ring all-reduce over a link of LINKS.

    LINKS[link] has a range (lowest, highest) for each of c_s, a_s and busbw_bytes_per_s.
    """
    # BEGIN SOLUTION (task 5)
    row = LINKS[link]
    (low_c, high_c), (low_a, high_a) = row["c_s"], row["a_s"]
    low_busbw, high_busbw = row["busbw_bytes_per_s"]
    best_s = ring_all_reduce_s(num_ranks, payload_bytes, low_c, low_a, high_busbw)
    worst_s = ring_all_reduce_s(num_ranks, payload_bytes, high_c, high_a, low_busbw)
    return best_s, worst_s
    # END SOLUTION


@checked
def tensor_parallel_sides(
    weight_bytes,
    memory_bytes_per_s,
    num_ranks,
    num_messages,
    message_s,
    tokens=1,
    flops_per_s=math.inf,
    element_bytes=2,
):
    """Return (paid_s, saved_s): what TP over num_ranks costs per step, and what it saves.

    Paid: num_messages messages, whatever num_ranks is. Saved: what a step on one rank takes longer
    than on num_ranks, both without communication. TP makes a token faster exactly when paid_s <
    saved_s.
    """
    # BEGIN SOLUTION (task 5)
    work = (memory_bytes_per_s, tokens, flops_per_s, element_bytes)
    saved_s = step_s(weight_bytes, 1, *work) - step_s(weight_bytes, num_ranks, *work)
    return num_messages * message_s, saved_s
    # END SOLUTION
