"""Plausible wrong answers to lab 03, each with the check that rejects it.

A name with one leading underscore keeps the solution's own version of what a mistake replaces, and
a mistake names only the arguments that it bends: the others are handed on as they come.
"""

_ring_s, _step_s, _sides = ring_all_reduce_s, step_s, tensor_parallel_sides
_predict_s, _equation, _calibrate = predict_all_reduce_s, equation, calibrate
_fastest = fastest_all_reduce


def step_messages__one_per_layer(num_layers, tokens, hidden_size, element_bytes):
    """each layer has one all-reduce.

    A layer is two blocks, attention and MLP, and each ends in a row-parallel product whose partial
    sums must meet.
    Rejected by: test_step_messages__two_per_layer
    """
    return num_layers, tokens * hidden_size * element_bytes


def step_messages__bits_for_bytes(num_layers, tokens, hidden_size, element_bytes):
    """the payload is counted in bits.

    element_bytes is already bytes; only a network's printed rate is in bits.
    Rejected by: test_step_messages__two_per_layer
    """
    return 2 * num_layers, tokens * hidden_size * element_bytes * 8


def step_messages__only_decode(num_layers, tokens, hidden_size, element_bytes):
    """the payload is that of one token, whatever the step holds.

    A step's activations are [tokens, hidden_size]: a batch of 64 sends 64 times the bytes of one.
    Rejected by: test_step_messages__two_per_layer
    """
    return 2 * num_layers, hidden_size * element_bytes


def step_messages__per_token(num_layers, tokens, hidden_size, element_bytes):
    """every token gets messages of its own.

    All tokens of a step share its all-reduces: the count stays, the payload grows.
    Rejected by: test_step_messages__two_per_layer
    """
    return 2 * num_layers * tokens, hidden_size * element_bytes


def ring_all_reduce_s__p_hops(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """a ring of p ranks makes 2p hops instead of 2(p-1).

    After p-1 hops every chunk has met all p ranks; one more would bring it back to its start.
    Rejected by: test_ring_all_reduce_s__walks_the_ring
    """
    if num_ranks == 1:
        return 0.0
    traffic = 2 * (num_ranks - 1) / num_ranks * payload_bytes
    return c_s + 2 * num_ranks * a_s + traffic / busbw_bytes_per_s


def ring_all_reduce_s__no_constant(num_ranks, payload_bytes, c_s, *rest):
    """the constant c is forgotten, as in most textbooks.

    Launching costs 3 to 8 us whatever the ranks and the bytes: at 8 KiB and two ranks that is most
    of the bill.
    Rejected by: test_ring_all_reduce_s__walks_the_ring
    """
    return _ring_s(num_ranks, payload_bytes, 0.0, *rest)


def ring_all_reduce_s__constant_per_hop(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """the constant c is paid on every hop.

    The whole ring is one kernel: c is paid once, a on every hop.
    Rejected by: test_ring_all_reduce_s__walks_the_ring
    """
    return _ring_s(num_ranks, payload_bytes, 0.0, c_s + a_s, busbw_bytes_per_s)


def ring_all_reduce_s__whole_buffer_per_hop(num_ranks, payload_bytes, *rest):
    """every hop carries the whole buffer instead of one chunk.

    A hop moves bytes/p. That is why a ring's traffic hardly grows with the ranks.
    Rejected by: test_ring_all_reduce_s__walks_the_ring
    """
    return _ring_s(num_ranks, num_ranks * payload_bytes, *rest)


def ring_all_reduce_s__half_the_trip(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """the ring reduces but never gathers.

    p-1 hops leave each rank with one finished chunk; the other ranks still need it.
    Rejected by: test_ring_all_reduce_s__walks_the_ring
    """
    if num_ranks == 1:
        return 0.0
    hops = num_ranks - 1
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s


def ring_all_reduce_s__both_directions(num_ranks, payload_bytes, *rest):
    """the bytes take half as long, as if a half trip were all or both directions carried them.

    Each rank sends 2(p-1)/p of the bytes one way round; what comes in at the same time is another
    rank's traffic. busbw is one direction.
    Rejected by: test_ring_all_reduce_s__walks_the_ring
    """
    return _ring_s(num_ranks, payload_bytes / 2, *rest)


def ring_all_reduce_s__one_rank_pays(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """one rank alone still pays the launch.

    An engine with one rank skips the call; its bill is 0.
    Rejected by: test_ring_all_reduce_s__walks_the_ring
    """
    hops = 2 * (num_ranks - 1)
    return c_s + hops * a_s + hops / num_ranks * payload_bytes / busbw_bytes_per_s


def decode_step_s__unsharded(weight_bytes, num_ranks, memory_bytes_per_s):
    """the step is that of one rank, as if the weights were not sharded.

    The comforting denominator: at TP=8 it turns 58% lost into 15%. Each rank reads only W/p, so
    the step shrinks while the bill grows.
    Rejected by: test_decode_step_s__shards_the_weights
    """
    return weight_bytes / memory_bytes_per_s


def communication_share__of_the_step_alone(num_messages, message_s, step_s):
    """the bill is divided by the step without communication.

    That is an overhead, and it can exceed 1. A share is bill / (bill + step).
    Rejected by: test_communication_share__divides_by_the_whole_step
    """
    return num_messages * message_s / step_s if step_s else 0.0


def communication_share__one_message(num_messages, message_s, step_s):
    """a step sends one message.

    One all-reduce of 7 us looks harmless; a step has 64 of them, one after the other.
    Rejected by: test_communication_share__divides_by_the_whole_step
    """
    return message_s / (message_s + step_s) if message_s else 0.0


def crossover_bytes__no_constant(num_ranks, c_s, a_s, busbw_bytes_per_s):
    """the latency is the hops alone, without c.

    c belongs to the latency: it is paid whether or not there are bytes.
    Rejected by: test_crossover_bytes__splits_the_time_in_half
    """
    return a_s * busbw_bytes_per_s * num_ranks if num_ranks > 1 else 0.0


def crossover_bytes__latency_times_bandwidth(num_ranks, c_s, a_s, busbw_bytes_per_s):
    """the crossover is latency times bandwidth, as for a single message.

    A ring carries 2(p-1)/p times the payload, so the payload at the crossover is smaller.
    Rejected by: test_crossover_bytes__splits_the_time_in_half
    """
    latency_s = c_s + 2 * (num_ranks - 1) * a_s
    return latency_s * busbw_bytes_per_s if num_ranks > 1 else 0.0


def step_s__reads_per_token(
    weight_bytes, num_ranks, memory_bytes_per_s, tokens=1, flops_per_s=math.inf, element_bytes=2
):
    """the weights are read again for every token.

    That is what a batch saves: a weight is read once and multiplied with every token of the step.
    Rejected by: test_step_s__has_two_roofs
    """
    reading_s = tokens * decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s)
    return max(reading_s, 2 * tokens * weight_bytes / element_bytes / (num_ranks * flops_per_s))


def step_s__only_memory(weight_bytes, num_ranks, memory_bytes_per_s, *_):
    """a step takes as long as reading, however many tokens it holds.

    From about 300 tokens on an H100 multiplies longer than it reads. Whoever leaves that out
    finds that tensor parallelism never pays at large batch, where it pays most.
    Rejected by: test_step_s__has_two_roofs
    """
    return decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s)


def step_s__one_flop(
    weight_bytes, num_ranks, memory_bytes_per_s, tokens=1, flops_per_s=math.inf, *width
):
    """a weight costs one flop per token.

    It costs two: the product, and its addition to the sum. Vendors count both.
    Rejected by: test_step_s__has_two_roofs
    """
    return _step_s(weight_bytes, num_ranks, memory_bytes_per_s, tokens, 2 * flops_per_s, *width)


def step_s__one_after_the_other(
    weight_bytes, num_ranks, memory_bytes_per_s, tokens=1, flops_per_s=math.inf, element_bytes=2
):
    """the rank first reads everything and multiplies afterwards.

    A GPU multiplies one tile while it reads the next: the slower of the two decides.
    Rejected by: test_step_s__has_two_roofs
    """
    reading_s = decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s)
    return reading_s + 2 * tokens * weight_bytes / element_bytes / (num_ranks * flops_per_s)


def step_s__every_rank_multiplies_all(
    weight_bytes, num_ranks, memory_bytes_per_s, tokens=1, flops_per_s=math.inf, element_bytes=2
):
    """the arithmetic is not sharded.

    A rank multiplies with the weights that it holds, 1/p of them, as it reads only those.
    Rejected by: test_step_s__has_two_roofs
    """
    reading_s = decode_step_s(weight_bytes, num_ranks, memory_bytes_per_s)
    return max(reading_s, 2 * tokens * weight_bytes / element_bytes / flops_per_s)


def step_s__bytes_for_weights(
    weight_bytes, num_ranks, memory_bytes_per_s, tokens=1, flops_per_s=math.inf, *_
):
    """bytes are counted where weights are multiplied.

    A BF16 weight is two bytes and one factor: 16 GB are 8 billion weights.
    Rejected by: test_step_s__has_two_roofs
    """
    return _step_s(weight_bytes, num_ranks, memory_bytes_per_s, tokens, flops_per_s, 1)


def link_bytes_per_s__bits(link):
    """the bits of a network are taken for bytes.

    10 GbE is 10 gigabits per second: 1.25 GB/s.
    Rejected by: test_link_bytes_per_s__one_direction
    """
    number, unit = LINKS[link]["printed"]
    return number * (0.5e9 if unit.startswith("GB") else 1e9)


def link_bytes_per_s__both_directions(link):
    """both directions of an NVLink are counted for a message that goes one way.

    NVLink 4 prints 900 GB/s: 450 out and 450 in. A rank's outgoing traffic has the 450.
    Rejected by: test_link_bytes_per_s__one_direction
    """
    number, unit = LINKS[link]["printed"]
    return number * (1e9 if unit.startswith("GB") else 1e9 / 8)


def link_bytes_per_s__gib(link):
    """GB is taken for GiB.

    Vendors print powers of ten: 1 GB/s is 1e9 bytes per second. 7% is more than the error of a
    good prediction.
    Rejected by: test_link_bytes_per_s__one_direction
    """
    number, unit = LINKS[link]["printed"]
    return number * 2**30 / (2 if unit.startswith("GB") else 8)


def all_reduce_range_s__low_ends_together(link, num_ranks, payload_bytes):
    """the low ends of all three columns are taken together.

    A low c and a are good, a low busbw is bad: the best box has low times and a high rate.
    Rejected by: test_all_reduce_range_s__best_and_worst
    """
    names = ("c_s", "a_s", "busbw_bytes_per_s")
    low, high = ([LINKS[link][name][end] for name in names] for end in (0, 1))
    low_s, high_s = (ring_all_reduce_s(num_ranks, payload_bytes, *end) for end in (low, high))
    return low_s, high_s


def all_reduce_range_s__worst_first(link, num_ranks, payload_bytes):
    """the worst box comes first.

    The docstring's order is (best_s, worst_s): the shorter time first.
    Rejected by: test_all_reduce_range_s__best_and_worst
    """
    row = LINKS[link]
    (low_c, high_c), (low_a, high_a) = row["c_s"], row["a_s"]
    low_busbw, high_busbw = row["busbw_bytes_per_s"]
    best_s = ring_all_reduce_s(num_ranks, payload_bytes, low_c, low_a, high_busbw)
    return ring_all_reduce_s(num_ranks, payload_bytes, high_c, high_a, low_busbw), best_s


def tensor_parallel_sides__saves_the_step(
    weight_bytes, memory_bytes_per_s, num_ranks, num_messages, message_s, *batch, **width
):
    """the saving is the whole sharded step.

    TP does not save what each rank still has to do. The saving is what it no longer does, the step
    on one rank less the step on p ranks.
    Rejected by: test_tensor_parallel_sides__paid_and_saved
    """
    step = step_s(weight_bytes, num_ranks, memory_bytes_per_s, *batch, **width)
    return num_messages * message_s, step


def tensor_parallel_sides__only_reading_saved(
    weight_bytes, memory_bytes_per_s, num_ranks, num_messages, message_s, *_, **__
):
    """only reading is saved, whatever the batch.

    At 4,096 tokens eight H100s spare each other seven eighths of the arithmetic: that is far more
    than the messages cost.
    Rejected by: test_tensor_parallel_sides__paid_and_saved
    """
    alone_s = decode_step_s(weight_bytes, 1, memory_bytes_per_s)
    return num_messages * message_s, alone_s - alone_s / num_ranks


def tensor_parallel_sides__pays_one_message(
    weight_bytes, memory_bytes_per_s, num_ranks, num_messages, message_s, *batch, **width
):
    """one message is paid instead of all of them.

    message_s is the time of one; a step of 32 layers has 64, one after the other.
    Rejected by: test_tensor_parallel_sides__paid_and_saved
    """
    work = weight_bytes, memory_bytes_per_s, num_ranks
    return message_s, _sides(*work, num_messages, message_s, *batch, **width)[1]


def reduce_scatter_s__counted_twice(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """a reduce-scatter costs as much as an all-reduce.

    It is the first half of one: p-1 hops, (p-1)/p of the bytes. Counting it twice makes sequence
    parallelism look dearer than it is.
    Rejected by: test_reduce_scatter_s__is_half_a_ring
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)


def reduce_scatter_s__whole_payload(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """a rank sends its whole payload, its own chunk included.

    1/p of the bytes is the rank's own and stays at home.
    Rejected by: test_reduce_scatter_s__is_half_a_ring
    """
    if num_ranks == 1:
        return 0.0
    return c_s + (num_ranks - 1) * a_s + payload_bytes / busbw_bytes_per_s


def reduce_scatter_s__half_of_all(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s):
    """everything is half of an all-reduce, the launch too.

    The hops and the bytes are half; c is paid in full.
    Rejected by: test_reduce_scatter_s__is_half_a_ring
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s) / 2


def bus_bandwidth__algorithm_bandwidth(operation, num_ranks, payload_bytes, seconds_s):
    """the algorithm bandwidth is printed instead of the bus bandwidth.

    Bytes over seconds falls with the ranks even on a perfect wire; the factor takes that out.
    Rejected by: test_bus_bandwidth__is_what_nccl_tests_prints
    """
    return payload_bytes / seconds_s


def bus_bandwidth__all_reduce_for_all(operation, num_ranks, payload_bytes, seconds_s):
    """every operation is taken for an all-reduce.

    Reduce-scatter, all-gather and all-to-all carry (p-1)/p of the payload, half of an all-reduce.
    Rejected by: test_bus_bandwidth__is_what_nccl_tests_prints
    """
    return payload_bytes / seconds_s * 2 * (num_ranks - 1) / num_ranks


def bus_bandwidth__broadcast_spares_the_root(operation, num_ranks, payload_bytes, seconds_s):
    """a broadcast carries (p-1)/p of the bytes.

    The root sends every byte, and each link of the chain passes every byte on: the factor is 1.
    Rejected by: test_bus_bandwidth__is_what_nccl_tests_prints
    """
    part = (num_ranks - 1) / num_ranks
    return payload_bytes / seconds_s * (2 * part if operation == "all_reduce" else part)


def one_shot_all_reduce_s__ring_bytes(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """one shot moves only a ring's bytes.

    Every rank reads the whole buffer of each of its p-1 peers: that is the price of one round.
    Rejected by: test_one_shot_all_reduce_s__reads_every_peer
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, kernel_s, 0.0, busbw_bytes_per_s)


def two_shot_all_reduce_s__one_round(num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s):
    """two shots cost one fixed part.

    Nobody may gather before everybody has reduced: there is a second round, and it is priced too.
    Rejected by: test_two_shot_all_reduce_s__has_two_rounds
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, kernel_s, 0.0, busbw_bytes_per_s)


def fastest_all_reduce__fixed_threshold(
    num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s
):
    """one shot is used up to 512 KiB and two shots above, whatever the ranks.

    Where the lines cross depends on the ranks: never for two, near 0.4 MB for eight.
    Rejected by: test_fastest_all_reduce__switches_with_the_payload
    """
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    if payload_bytes <= 512 * 1024:
        return "one_shot", one_shot_all_reduce_s(*direct)
    return "two_shot", two_shot_all_reduce_s(*direct)


def fastest_all_reduce__ring_first(num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s):
    """a tie goes to the ring instead of the simplest kernel.

    On one rank all three cost nothing. Among equals the docstring's order decides: one_shot first.
    Rejected by: test_fastest_all_reduce__switches_with_the_payload
    """
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    ring_s = ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    costs = {"ring": ring_s, "two_shot": two_shot_all_reduce_s(*direct)}
    costs["one_shot"] = one_shot_all_reduce_s(*direct)
    name = min(costs, key=costs.get)
    return name, costs[name]


def fastest_all_reduce__tie_by_name(
    num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s
):
    """a tie goes to the first name in the alphabet, as min() of (seconds, name) decides.

    "ring" stands before "two_shot" there. Among equals the docstring's order decides, so compare
    the seconds alone: min(costs, key=costs.get).
    Rejected by: test_fastest_all_reduce__switches_with_the_payload
    """
    direct = (num_ranks, payload_bytes, kernel_s, busbw_bytes_per_s)
    ring_s = ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)
    seconds, name = min(
        (one_shot_all_reduce_s(*direct), "one_shot"),
        (two_shot_all_reduce_s(*direct), "two_shot"),
        (ring_s, "ring"),
    )
    return name, seconds


def fastest_all_reduce__no_ring_for_small_payloads(
    num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s
):
    """the ring is asked for large payloads only.

    That is what usually comes out. With a quick ring and a slow kernel the ring also wins at 8 KiB.
    Rejected by: test_fastest_all_reduce__switches_with_the_payload
    """
    c_s = c_s if payload_bytes >= 512 * 1024 else 1e9  # then the ring is never the fastest
    return _fastest(num_ranks, payload_bytes, kernel_s, c_s, a_s, busbw_bytes_per_s)


def hierarchical_all_reduce_s__whole_payload_across(
    num_nodes, gpus_per_node, payload_bytes, c_s, node_a_s, node_busbw, *network
):
    """every GPU sends the whole payload across the nodes.

    The reduce-scatter left each GPU with 1/g of it, and each has its own network card.
    Rejected by: test_hierarchical_all_reduce_s__each_gpu_its_part
    """
    if num_nodes * gpus_per_node == 1:
        return 0.0
    node = (gpus_per_node, payload_bytes, 0.0, node_a_s, node_busbw)
    across_s = ring_all_reduce_s(num_nodes, payload_bytes, 0.0, *network)
    return c_s + 2 * reduce_scatter_s(*node) + across_s


def hierarchical_all_reduce_s__three_launches(
    num_nodes, gpus_per_node, payload_bytes, c_s, node_a_s, node_busbw, *network
):
    """each of the three stages pays its own launch.

    They are one kernel; the constant is paid once.
    Rejected by: test_hierarchical_all_reduce_s__each_gpu_its_part
    """
    node = (gpus_per_node, payload_bytes, c_s, node_a_s, node_busbw)
    across_s = ring_all_reduce_s(num_nodes, payload_bytes / gpus_per_node, c_s, *network)
    return 2 * reduce_scatter_s(*node) + across_s


def expert_parallel_bytes__each_token_once(
    tokens, top_k, hidden_size, dispatch_element_bytes=1 + 4 / 128, combine_element_bytes=2
):
    """each token travels once, not to each of its experts.

    top_k experts need top_k copies, and as many partial results come back.
    Rejected by: test_expert_parallel_bytes__as_deepep_counts_them
    """
    elements = tokens * hidden_size
    return elements * dispatch_element_bytes, elements * combine_element_bytes


def expert_parallel_bytes__no_scales(
    tokens, top_k, hidden_size, dispatch_element_bytes=1, combine_element_bytes=2
):
    """the FP8 scales are left out.

    128 elements share a 4-byte scale: 3% more, enough to miss DeepEP's printed digits.
    Rejected by: test_expert_parallel_bytes__as_deepep_counts_them
    """
    elements = tokens * top_k * hidden_size
    return elements * dispatch_element_bytes, elements * combine_element_bytes


def predict_all_reduce_s__straight_line(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, *_):
    """there is one protocol with the best of all, low latency and full bandwidth.

    No protocol has both; at 1 to 16 MiB the straight line is 20 to 40% too low.
    Rejected by: test_predict_all_reduce_s__takes_the_fastest_protocol
    """
    return ring_all_reduce_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s)


def predict_all_reduce_s__always_the_first(
    num_ranks, payload_bytes, c_s, a_s, busbw, protocols=NCCL_PROTOCOLS
):
    """the protocol for small payloads is used for all.

    Half of what it sends is flags: above a few MiB it loses half the bandwidth.
    Rejected by: test_predict_all_reduce_s__takes_the_fastest_protocol
    """
    return _predict_s(num_ranks, payload_bytes, c_s, a_s, busbw, protocols[:1])


def predict_all_reduce_s__fill_at_the_end(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols=NCCL_PROTOCOLS
):
    """the pipeline is filled once, by one rank, instead of travelling round like the payload.

    The chunks under way make the same 2(p-1)/p trips as the payload behind them.
    Rejected by: test_predict_all_reduce_s__takes_the_fastest_protocol
    """
    return min(
        ring_all_reduce_s(
            num_ranks, payload_bytes, factor * c_s, factor * a_s, part * busbw_bytes_per_s
        )
        + fill / busbw_bytes_per_s
        for factor, part, fill in protocols
    )


def predict_all_reduce_s__factor_on_the_hops(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, protocols=NCCL_PROTOCOLS
):
    """the factor slows the hops and not the launch.

    A row's factor is on c and on a, as its comment says.
    Rejected by: test_predict_all_reduce_s__takes_the_fastest_protocol
    """
    return min(
        ring_all_reduce_s(
            num_ranks, payload_bytes + fill, c_s, factor * a_s, part * busbw_bytes_per_s
        )
        for factor, part, fill in protocols
    )


def predict_all_reduce_s__knows_only_nccl(
    num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, *_
):
    """NCCL's protocols are used, whatever is given.

    gloo has one protocol; measure.py gives STRAIGHT_LINE.
    Rejected by: test_predict_all_reduce_s__takes_the_fastest_protocol
    """
    return _predict_s(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, NCCL_PROTOCOLS)


def equation__fill_beside_the_ring(point, protocol):
    """the bytes that fill the pipeline stand beside the payload, without the factor 2(p-1)/p.

    They travel round like the payload. Fitted and predicted by two formulas, constants drift.
    Rejected by: test_equation__holds_for_every_c_a_and_busbw
    """
    (num_ranks, payload_bytes, seconds_s), (factor, part, fill) = point, protocol
    hops = 2 * (num_ranks - 1)
    terms = factor, factor * hops, (hops / num_ranks * payload_bytes + fill) / part
    return [term / seconds_s for term in terms]


def equation__seconds_not_divided(point, protocol):
    """the terms add up to the seconds instead of to 1.

    least_squares wants 1 on the right of every row: divide each term by the measured seconds.
    Rejected by: test_equation__holds_for_every_c_a_and_busbw
    """
    return [term * point[2] for term in _equation(point, protocol)]


def equation__full_bandwidth(point, protocol):
    """every protocol has the whole bus bandwidth for payload.

    LL has 0.45 of it: the rest carries flags, so each byte costs 1/0.45 as much.
    Rejected by: test_equation__holds_for_every_c_a_and_busbw
    """
    factor, _, fill = protocol
    return _equation(point, (factor, 1.0, fill))


def calibrate__least_squares_of_seconds(points, protocols=NCCL_PROTOCOLS):
    """the fit minimises errors in seconds, so the largest payload decides alone.

    A 1% error at 512 MiB is 20 us, three times the whole bill at 8 KiB. Divide each equation by
    its measured seconds.
    Rejected by: test_calibrate__returns_what_made_the_points
    """
    rows = [[1, 2 * (p - 1), 2 * (p - 1) / p * size] for p, size, _ in points]
    seconds = [seconds_s for _, _, seconds_s in points]
    c_s, a_s, s_per_byte = np.linalg.lstsq(np.array(rows, float), np.array(seconds), rcond=None)[0]
    return float(c_s), float(a_s), float(1 / s_per_byte)


def calibrate__forgets_the_protocols(points, protocols=NCCL_PROTOCOLS):
    """one straight line is fitted through all points.

    The large point was measured with another protocol than the small ones: its latency is higher,
    and part of its time fills the pipeline.
    Rejected by: test_calibrate__returns_what_made_the_points
    """
    c_s, a_s, s_per_byte = least_squares([equation(point, STRAIGHT_LINE[0]) for point in points])
    return c_s, a_s, 1 / s_per_byte


def calibrate__three_points_only(points, protocols=NCCL_PROTOCOLS):
    """only the first three points are fitted.

    Three fix the constants; every further one makes them surer, and may cover another payload.
    Rejected by: test_calibrate__weighs_every_point_the_same
    """
    check_points(points)
    return _calibrate(points[:3], protocols)


def _fitted(points, protocols, times):
    """What `calibrate` gives if it fits so many times."""
    check_points(points)
    chosen = [STRAIGHT_LINE[0]] * len(points)
    for _ in range(times):
        rows = [equation(point, row) for point, row in zip(points, chosen, strict=True)]
        c_s, a_s, s_per_byte = least_squares(rows)
        if s_per_byte == 0:
            raise ValueError("points give no busbw (bytes/s): the large payload is not the slowest")
        chosen = [fastest_protocol(point, c_s, a_s, 1 / s_per_byte, protocols) for point in points]
    return c_s, a_s, 1 / s_per_byte


def calibrate__never_looks_again(points, protocols=NCCL_PROTOCOLS):
    """the points choose their protocol once and are not fitted again.

    The first constants come from a straight line through all points; only the fit after the choice
    knows which formula each point obeys.
    Rejected by: test_calibrate__returns_what_made_the_points
    """
    return _fitted(points, protocols, 1)


def calibrate__two_fits(points, protocols=NCCL_PROTOCOLS):
    """the fit stops after the second time.

    With several large points the first choice of protocols can be wrong for two of them, and the
    second fit is then still off. Four are enough.
    Rejected by: test_calibrate__returns_what_made_the_points
    """
    return _fitted(points, protocols, 2)


def calibrate__infinite_busbw(points, protocols=NCCL_PROTOCOLS):
    """a busbw that the points do not give is called infinite.

    The largest payload was the fastest: that is a measurement to repeat, not a wire without end.
    Rejected by: test_calibrate__refuses_points_that_fix_nothing
    """
    try:
        return _calibrate(points, protocols)
    except ValueError as error:
        if "give no busbw" not in str(error):
            raise
        return *least_squares([equation(point, STRAIGHT_LINE[0]) for point in points])[:2], math.inf


def step_s__two_byte_weights(
    weight_bytes, num_ranks, memory_bytes_per_s, tokens=1, flops_per_s=math.inf, *_
):
    """every weight has two bytes, whatever element_bytes says.

    The same bytes hold twice as many weights of one byte, and each wants its two flops.
    Rejected by: test_step_s__has_two_roofs
    """
    return _step_s(weight_bytes, num_ranks, memory_bytes_per_s, tokens, flops_per_s, 2)


def bus_bandwidth__all_to_all_sends_all(operation, num_ranks, payload_bytes, seconds_s):
    """an all-to-all sends all of its bytes.

    A rank keeps the block that is meant for itself, 1/p of its bytes.
    Rejected by: test_bus_bandwidth__is_what_nccl_tests_prints
    """
    part = (num_ranks - 1) / num_ranks
    sent = {"all_reduce": 2 * part, "reduce_scatter": part, "all_gather": part}.get(operation, 1)
    return payload_bytes / seconds_s * sent


def expert_parallel_bytes__one_type_both_ways(
    tokens, top_k, hidden_size, dispatch_element_bytes=1 + 4 / 128, combine_element_bytes=2
):
    """tokens come back in the type in which they went out.

    Experts return BF16: they are summed with their weights, which FP8 is too coarse for.
    Rejected by: test_expert_parallel_bytes__as_deepep_counts_them
    """
    elements = tokens * top_k * hidden_size
    return elements * dispatch_element_bytes, elements * dispatch_element_bytes


def predict_all_reduce_s__sends_no_fill(
    num_ranks, payload_bytes, c_s, a_s, busbw, protocols=NCCL_PROTOCOLS
):
    """what fills the pipeline is left out.

    Before the first byte of payload comes out, the fill has gone round like payload.
    Rejected by: test_predict_all_reduce_s__takes_the_fastest_protocol
    """
    emptied = [(factor, part, 0) for factor, part, _ in protocols]
    return _predict_s(num_ranks, payload_bytes, c_s, a_s, busbw, emptied)


def equation__fill_at_full_bandwidth(point, protocol):
    """what fills the pipeline travels at the whole busbw, the payload at its part.

    Fill is sent like payload: both have only the part of the bandwidth that the flags leave.
    Rejected by: test_equation__holds_for_every_c_a_and_busbw
    """
    (num_ranks, payload_bytes, seconds_s), (factor, part, fill) = point, protocol
    hops = 2 * (num_ranks - 1)
    terms = factor, factor * hops, hops / num_ranks * (payload_bytes / part + fill)
    return [term / seconds_s for term in terms]
