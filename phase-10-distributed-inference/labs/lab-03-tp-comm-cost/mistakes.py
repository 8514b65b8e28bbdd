"""Plausible wrong answers to lab 03, each with the check that rejects it."""


def step_messages__one_per_layer(num_layers, tokens, hidden_size, element_bytes):
    """each layer has one all-reduce.

    A layer is two blocks, attention and MLP, and each ends in a row-parallel product whose partial
    sums must meet.
    Rejected by: test_step_messages
    """
    require(num_layers=num_layers, tokens=tokens)
    require(hidden_size=hidden_size, element_bytes=element_bytes)
    return num_layers, tokens * hidden_size * element_bytes


def step_messages__bits_for_bytes(num_layers, tokens, hidden_size, element_bytes):
    """the payload is counted in bits.

    element_bytes is already bytes; only a network's printed rate is in bits.
    Rejected by: test_step_messages
    """
    require(num_layers=num_layers, tokens=tokens)
    require(hidden_size=hidden_size, element_bytes=element_bytes)
    return 2 * num_layers, tokens * hidden_size * element_bytes * 8


def ring_all_reduce_s__p_hops(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """a ring of p ranks makes 2p hops instead of 2(p-1).

    After p-1 hops every chunk has met all p ranks; one more would bring it back to its start.
    Rejected by: test_ring_all_reduce
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    traffic = 2 * (num_ranks - 1) / num_ranks * payload_bytes
    return c_s + 2 * num_ranks * a_s + traffic / busbw_bytes_per_s


def ring_all_reduce_s__no_constant(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """the constant c is forgotten, as in most textbooks.

    Launching costs 3 to 8 us whatever the ranks and the bytes: at 8 KiB and two ranks that is most
    of the bill.
    Rejected by: test_ring_all_reduce
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    hops = 2 * (num_ranks - 1)
    return hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s


def ring_all_reduce_s__constant_per_hop(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """the constant c is paid on every hop.

    The whole ring is one kernel: c is paid once, a on every hop.
    Rejected by: test_ring_all_reduce
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    hops = 2 * (num_ranks - 1)
    return hops * (c_s + a_s) + hops / num_ranks * payload_bytes / busbw_bytes_per_s


def ring_all_reduce_s__whole_buffer_per_hop(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """every hop carries the whole buffer instead of one chunk.

    A hop moves bytes/p. That is why a ring's traffic hardly grows with the ranks.
    Rejected by: test_ring_all_reduce
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    hops = 2 * (num_ranks - 1)
    return c_s + hops * (a_s + payload_bytes / busbw_bytes_per_s)


def ring_all_reduce_s__half_the_trip(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """the ring reduces but never gathers.

    p-1 hops leave each rank with one finished chunk; the other ranks still need it.
    Rejected by: test_ring_all_reduce
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    hops = num_ranks - 1
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s


def ring_all_reduce_s__both_directions(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """the bytes travel at the bandwidth of both directions.

    Each rank sends 2(p-1)/p of the bytes one way round; what comes in at the same time is another
    rank's traffic. busbw is one direction.
    Rejected by: test_ring_all_reduce
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    hops = 2 * (num_ranks - 1)
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / (2 * busbw_bytes_per_s)


def ring_all_reduce_s__one_rank_pays(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """one rank alone still pays the launch.

    An engine with one rank skips the call; its bill is 0.
    Rejected by: test_ring_all_reduce
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    hops = 2 * (num_ranks - 1)
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s


def decode_step_s__unsharded(weight_bytes, num_ranks, memory_bytes_per_s):
    """the step is that of one rank, as if the weights were not sharded.

    The comforting denominator: at TP=8 it turns 58 % lost into 15 %. Each rank reads only W/p, so
    the step shrinks while the bill grows.
    Rejected by: test_share_of_a_sharded_step, test_within_a_node_never_across
    """
    require(weight_bytes=weight_bytes, num_ranks=num_ranks, memory_bytes_per_s=memory_bytes_per_s)
    return weight_bytes / memory_bytes_per_s


def communication_share__of_the_step_alone(num_messages, message_s, step_s):
    """the bill is divided by the step without communication.

    That is an overhead, and it can exceed 1. A share is bill / (bill + step).
    Rejected by: test_share_of_a_sharded_step
    """
    require(num_messages=num_messages, message_s=message_s, step_s=step_s)
    return num_messages * message_s / step_s if step_s else 0.0


def communication_share__one_message(num_messages, message_s, step_s):
    """a step sends one message.

    One all-reduce of 7 us looks harmless; a step has 64 of them, one after the other.
    Rejected by: test_share_of_a_sharded_step
    """
    require(num_messages=num_messages, message_s=message_s, step_s=step_s)
    return message_s / (message_s + step_s) if message_s else 0.0


def crossover_bytes__no_constant(num_ranks, c_s, a_s, busbw_bytes_per_s):
    """the latency is the hops alone, without c.

    c belongs to the latency: it is paid whether or not there are bytes.
    Rejected by: test_crossover
    """
    require(num_ranks=num_ranks, c_s=c_s, a_s=a_s, busbw_bytes_per_s=busbw_bytes_per_s)
    return a_s * busbw_bytes_per_s * num_ranks if num_ranks > 1 else 0.0


def crossover_bytes__latency_times_bandwidth(num_ranks, c_s, a_s, busbw_bytes_per_s):
    """the crossover is latency times bandwidth, as for a single message.

    A ring carries 2(p-1)/p times the payload, so the payload at the crossover is smaller.
    Rejected by: test_crossover
    """
    require(num_ranks=num_ranks, c_s=c_s, a_s=a_s, busbw_bytes_per_s=busbw_bytes_per_s)
    latency_s = c_s + 2 * (num_ranks - 1) * a_s
    return latency_s * busbw_bytes_per_s if num_ranks > 1 else 0.0


def latency_share__hops_only(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """only the hops count as latency, not the launch.

    A wire of infinite bandwidth would still leave c and the hops.
    Rejected by: test_within_a_node_never_across
    """
    total_s = ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    return 2 * (num_ranks - 1) * a_s / total_s if total_s else 0.0


def link_bytes_per_s__bits(link):
    """the bits of a network are taken for bytes.

    10 GbE is 10 gigabits per second: 1.25 GB/s.
    Rejected by: test_links
    """
    if link not in list(LINKS):
        raise ValueError(f"link {link!r} has no bytes/s here; known links: {', '.join(LINKS)}")
    number, unit = LINKS[link]["printed"]
    return number * (0.5e9 if unit.startswith("GB") else 1e9)


def link_bytes_per_s__both_directions(link):
    """both directions of an NVLink are counted for a message that goes one way.

    NVLink 4 prints 900 GB/s: 450 out and 450 in. A rank's outgoing traffic has the 450.
    Rejected by: test_links
    """
    if link not in list(LINKS):
        raise ValueError(f"link {link!r} has no bytes/s here; known links: {', '.join(LINKS)}")
    number, unit = LINKS[link]["printed"]
    return number * (1e9 if unit.startswith("GB") else 1e9 / 8)


def link_bytes_per_s__gib(link):
    """GB is taken for GiB.

    Vendors print powers of ten: 1 GB/s is 1e9 bytes per second. 7 % is more than the error of a
    good prediction.
    Rejected by: test_links
    """
    if link not in list(LINKS):
        raise ValueError(f"link {link!r} has no bytes/s here; known links: {', '.join(LINKS)}")
    number, unit = LINKS[link]["printed"]
    return number * 2**30 / (2 if unit.startswith("GB") else 8)


def all_reduce_range_s__low_ends_together(link, num_ranks, payload_bytes):
    """the low ends of all three columns are taken together.

    A low c and a are good, a low busbw is bad: the best box has low times and a high rate.
    Rejected by: test_links
    """
    link_bytes_per_s(link)
    names = ("c_s", "a_s", "busbw_bytes_per_s")
    ends = [[LINKS[link][name][end] for name in names] for end in (0, 1)]
    low_s, high_s = (ring_all_reduce_s(num_ranks, payload_bytes, *end) for end in ends)
    return low_s, high_s


def tensor_parallel_sides__saves_the_step(
    weight_bytes, memory_bytes_per_s, num_ranks, num_messages, message_s
):
    """the saving is the whole sharded step.

    TP does not save what each rank still has to read. The saving is what it no longer reads,
    W/BW less W/(p BW).
    Rejected by: test_both_sides_of_the_rule
    """
    require(num_messages=num_messages, message_s=message_s)
    step_s = decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s)
    return num_messages * message_s, step_s


def reduce_scatter_s__counted_twice(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """a reduce-scatter costs as much as an all-reduce.

    It is the first half of one: p-1 hops, (p-1)/p of the bytes. Counting it twice makes sequence
    parallelism look dearer than it is.
    Rejected by: test_half_trips
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)


def all_gather_s__payload_is_a_shard(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """the payload is one rank's shard.

    nccl-tests and this lab count the gathered output; each of the p-1 hops moves a p-th of it.
    Rejected by: test_half_trips
    """
    return reduce_scatter_s(num_ranks, num_ranks * payload_bytes, c_s, a_s, busbw_bytes_per_s)


def all_to_all_s__sends_to_itself(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """a rank sends itself its own part over the wire.

    1/p of the bytes stay at home.
    Rejected by: test_half_trips
    """
    require(num_ranks=num_ranks, payload_bytes=payload_bytes, c_s=c_s, a_s=a_s)
    require(busbw_bytes_per_s=busbw_bytes_per_s)
    if num_ranks == 1:
        return 0.0
    return c_s + (num_ranks - 1) * a_s + payload_bytes / busbw_bytes_per_s


def bus_bandwidth__algorithm_bandwidth(operation, num_ranks, payload_bytes, seconds_s):
    """the algorithm bandwidth is printed instead of the bus bandwidth.

    Bytes over seconds falls with the ranks even on a perfect wire; the factor takes that out.
    Rejected by: test_bus_bandwidth
    """
    if operation not in list(OPERATIONS):
        raise ValueError(f"operation must be one of {', '.join(OPERATIONS)}, not {operation!r}")
    return payload_bytes / seconds_s


def one_shot_all_reduce_s__ring_bytes(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """one shot moves only a ring's bytes.

    Every rank reads the whole buffer of each of its p-1 peers: that is the price of one round.
    Rejected by: test_one_shot_two_shot_and_min
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, kernel_s, 0.0, busbw_bytes_per_s)


def two_shot_all_reduce_s__one_round(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """two shots cost one fixed part.

    Nobody may gather before everybody has reduced: there is a second round, and it is priced too.
    Rejected by: test_one_shot_two_shot_and_min
    """
    require(kernel_s=kernel_s)
    return ring_all_reduce_s(num_ranks, payload_bytes, kernel_s, 0.0, busbw_bytes_per_s)


def fastest_all_reduce__fixed_threshold(
    num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s
):
    """one shot is used up to 512 KiB and two shots above, whatever the ranks.

    Where the lines cross depends on the ranks: never for two, near 0.4 MB for eight.
    Rejected by: test_one_shot_two_shot_and_min
    """
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    if payload_bytes <= 512 * 1024:
        return "one_shot", one_shot_all_reduce_s(*direct)
    return "two_shot", two_shot_all_reduce_s(*direct)


def fastest_all_reduce__ring_first(num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s):
    """a tie goes to the ring instead of the simplest kernel.

    On one rank all three cost nothing. Among equals the docstring's order decides: one_shot first.
    Rejected by: test_one_shot_two_shot_and_min
    """
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    costs = {
        "ring": ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s),
        "two_shot": two_shot_all_reduce_s(*direct),
        "one_shot": one_shot_all_reduce_s(*direct),
    }
    name = min(costs, key=costs.get)
    return name, costs[name]


def fastest_all_reduce__tie_by_name(
    num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s
):
    """a tie goes to the first name in the alphabet, as min() of (seconds, name) decides.

    "ring" stands before "two_shot" there. Among equals the docstring's order decides, so compare
    the seconds alone: min(costs, key=costs.get).
    Rejected by: test_one_shot_two_shot_and_min
    """
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    ring_s = ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    seconds, name = min(
        (one_shot_all_reduce_s(*direct), "one_shot"),
        (two_shot_all_reduce_s(*direct), "two_shot"),
        (ring_s, "ring"),
    )
    return name, seconds


def hierarchical_all_reduce_s__whole_payload_across(
    num_nodes,
    gpus_per_node,
    payload_bytes,
    c_s,
    node_a_s,
    node_busbw_bytes_per_s,
    network_a_s,
    network_busbw_bytes_per_s,
):
    """every GPU sends the whole payload across the nodes.

    The reduce-scatter left each GPU with 1/g of it, and each has its own network card.
    Rejected by: test_hierarchical
    """
    if num_nodes * gpus_per_node == 1:
        return 0.0
    node = (gpus_per_node, payload_bytes, 0.0, node_a_s, node_busbw_bytes_per_s)
    network = (num_nodes, payload_bytes, 0.0, network_a_s, network_busbw_bytes_per_s)
    return c_s + 2 * reduce_scatter_s(*node) + ring_all_reduce_s(*network)


def hierarchical_all_reduce_s__three_launches(
    num_nodes,
    gpus_per_node,
    payload_bytes,
    c_s,
    node_a_s,
    node_busbw_bytes_per_s,
    network_a_s,
    network_busbw_bytes_per_s,
):
    """each of the three stages pays its own launch.

    They are one kernel; the constant is paid once.
    Rejected by: test_hierarchical
    """
    node = (gpus_per_node, payload_bytes, c_s, node_a_s, node_busbw_bytes_per_s)
    network = (num_nodes, payload_bytes / gpus_per_node, c_s, network_a_s)
    return 2 * reduce_scatter_s(*node) + ring_all_reduce_s(*network, network_busbw_bytes_per_s)


def expert_parallel_bytes__each_token_once(
    tokens, top_k, hidden_size, dispatch_element_bytes=1 + 4 / 128, combine_element_bytes=2
):
    """each token travels once, not to each of its experts.

    top_k experts need top_k copies, and as many partial results come back.
    Rejected by: test_expert_parallel
    """
    elements = tokens * hidden_size
    return elements * dispatch_element_bytes, elements * combine_element_bytes


def expert_parallel_bytes__no_scales(
    tokens, top_k, hidden_size, dispatch_element_bytes=1, combine_element_bytes=2
):
    """the FP8 scales are left out.

    128 elements share a 4-byte scale: 3 % more, enough to miss DeepEP's printed digits.
    Rejected by: test_expert_parallel
    """
    elements = tokens * top_k * hidden_size
    return elements * dispatch_element_bytes, elements * combine_element_bytes


def protocol_times_s__fill_at_the_end(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols
):
    """the pipeline is filled once, by one rank, instead of travelling round like the payload.

    The chunks under way make the same 2(p-1)/p trips as the payload behind them.
    Rejected by: test_predict_switches_protocols
    """
    return [
        ring_all_reduce_s(
            num_ranks, payload_bytes, factor * c_s, factor * a_s, part * busbw_bytes_per_s
        )
        + fill / busbw_bytes_per_s
        for factor, part, fill in protocols
    ]


def predict_all_reduce_s__always_the_first(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols=NCCL_PROTOCOLS
):
    """the protocol for small payloads is used for all.

    Half of what it sends is flags: above a few MiB it loses half the bandwidth.
    Rejected by: test_predict_switches_protocols, test_predict_measured
    """
    constants = (c_s, a_s, busbw_bytes_per_s)
    return protocol_times_s(num_ranks, payload_bytes, *constants, protocols)[0]


def predict_all_reduce_s__straight_line(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols=NCCL_PROTOCOLS
):
    """there is one protocol with the best of all, low latency and full bandwidth.

    No protocol has both; at 1 to 16 MiB the straight line is 20 to 40 % too low.
    Rejected by: test_predict_switches_protocols, test_predict_measured
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)


def calibrate__least_squares_of_seconds(points, protocols=NCCL_PROTOCOLS):
    """the fit minimises errors in seconds, so the largest payload decides alone.

    A 1 % error at 512 MiB is 20 us, three times the whole bill at 8 KiB. Divide each equation by
    its measured seconds.
    Rejected by: test_calibrate
    """
    rows = [[1, 2 * (p - 1), 2 * (p - 1) / p * size] for p, size, _ in points]
    seconds = [seconds_s for _, _, seconds_s in points]
    c_s, a_s, s_per_byte = np.linalg.lstsq(np.array(rows, float), np.array(seconds), rcond=None)[0]
    return float(c_s), float(a_s), float(1 / s_per_byte)


def calibrate__forgets_the_protocols(points, protocols=NCCL_PROTOCOLS):
    """one straight line is fitted through all points.

    The large point was measured with another protocol than the small ones: its latency is higher,
    and part of its time fills the pipeline.
    Rejected by: test_calibrate
    """
    rows = []
    for num_ranks, payload_bytes, seconds_s in points:
        hops = 2 * (num_ranks - 1)
        row = [1.0, hops, hops / num_ranks * payload_bytes]
        rows.append([entry / seconds_s for entry in row])
    c_s, a_s, s_per_byte = least_squares(rows)
    return c_s, a_s, 1 / s_per_byte


def calibrate__fill_beside_the_ring(points, protocols=NCCL_PROTOCOLS):
    """the bytes that fill the pipeline stand beside the payload, without the factor 2(p-1)/p.

    They travel round like the payload: the coefficient of 1/busbw is that of protocol_times_s,
    2(p-1)/p x (payload + fill) / part. Fitted and predicted by two formulas, constants drift.
    Rejected by: test_calibrate
    """
    chosen = [STRAIGHT_LINE[0]] * len(points)
    for _ in range(4):
        rows = []
        for (p, size, seconds_s), (factor, part, fill) in zip(points, chosen, strict=True):
            hops = 2 * (p - 1)
            row = [factor, factor * hops, (hops / p * size + fill) / part]
            rows.append([entry / seconds_s for entry in row])
        c_s, a_s, s_per_byte = least_squares(rows)
        fits = [
            protocol_times_s(*point[:2], c_s, a_s, 1 / s_per_byte, protocols) for point in points
        ]
        chosen = [protocols[times.index(min(times))] for times in fits]
    return c_s, a_s, 1 / s_per_byte


def busbw_at__in_the_order_given(num_ranks, measured):
    """the measured rank counts are taken in the order in which they were given.

    np.interp wants them ascending and does not say so when they are not; a dict is in the order in
    which somebody measured.
    Rejected by: test_predict_measured
    """
    require(num_ranks=num_ranks)
    for ranks, busbw in measured.items():
        require(num_ranks=ranks, busbw_bytes_per_s=busbw)
    if not measured:
        raise ValueError("measured must hold the bytes/s of one rank count at least, not {}")
    ranks = list(measured)
    logs = np.interp(math.log(num_ranks), np.log(ranks), np.log([measured[p] for p in ranks]))
    return math.exp(logs)


def busbw_at__straight_line(num_ranks, measured):
    """the bandwidth is interpolated without logarithms.

    On PCIe it falls from 20 GB/s at two ranks to 1.4 at eight; halfway it is 5, not 14.
    Rejected by: test_predict_measured
    """
    ranks = sorted(measured)
    return float(np.interp(num_ranks, ranks, [measured[p] for p in ranks]))


def busbw_at__ends_only(num_ranks, measured):
    """one line is drawn from the first to the last measured rank count.

    The counts between them were measured too; the line goes through the two nearest neighbours.
    Rejected by: test_predict_measured
    """
    require(num_ranks=num_ranks)
    for ranks, busbw in measured.items():
        require(num_ranks=ranks, busbw_bytes_per_s=busbw)
    if not measured:
        raise ValueError("measured must hold the bytes/s of one rank count at least, not {}")
    ends = sorted({min(measured), max(measured)})
    logs = np.interp(math.log(num_ranks), np.log(ends), np.log([measured[p] for p in ends]))
    return math.exp(logs)
