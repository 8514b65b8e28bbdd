"""Plausible mistakes of lab 03. See labkit/mistakes/__init__.py for how they are written down."""

from fractions import Fraction

EDITS = """
Rejected by: test_step_messages__two_per_layer

step_messages__one_per_layer
each layer has one all-reduce.
A layer is two blocks, attention and MLP, and each ends in a row-parallel product whose partial
sums must meet.
    2 * num_layers  ->  num_layers

step_messages__bits_for_bytes
the payload is counted in bits.
element_bytes is already bytes; only a network's printed rate is in bits.
    * element_bytes  ->  * element_bytes * 8

step_messages__only_decode
the payload is that of one token, whatever the step holds.
A step's activations are [tokens, hidden_size]: a batch of 64 sends 64 times the bytes of one.
    tokens * hidden_size  ->  hidden_size

step_messages__per_token
every token gets messages of its own.
All tokens of a step share its all-reduces: the count stays, the payload grows.
    2 * num_layers, tokens * hidden_size  ->  2 * num_layers * tokens, hidden_size

Rejected by: test_ring_all_reduce_s__walks_the_ring

ring_all_reduce_s__no_constant
the constant c is forgotten, as in most textbooks.
Launching costs 3 to 8 us whatever the ranks and the bytes: at 8 KiB and two ranks that is most
of the bill.
    c_s + hops * a_s  ->  hops * a_s

ring_all_reduce_s__constant_per_hop
the constant c is paid on every hop.
The whole ring is one kernel: c is paid once, a on every hop.
    c_s + hops * a_s  ->  hops * (c_s + a_s)

ring_all_reduce_s__whole_buffer_per_hop
every hop carries the whole buffer instead of one chunk.
A hop moves bytes/p. That is why a ring's traffic hardly grows with the ranks.
    hops / num_ranks * payload_bytes  ->  hops * payload_bytes

ring_all_reduce_s__payload_once
the payload crosses a link once.
Going round twice, once to reduce and once to gather, 2(p-1)/p of it leaves each rank.
    hops / num_ranks * payload_bytes  ->  payload_bytes

ring_all_reduce_s__payload_twice
the payload crosses a link twice.
Each of the two rounds has p-1 hops and not p, so 2(p-1)/p of it leaves each rank.
    hops / num_ranks * payload_bytes  ->  2 * payload_bytes

ring_all_reduce_s__one_hop
a ring makes one hop.
A chunk meets its neighbour only: 2(p-1) hops until all ranks have all sums.
    hops * a_s  ->  a_s

ring_all_reduce_s__half_the_trip
the ring reduces but never gathers.
p-1 hops leave each rank with one finished chunk; the other ranks still need it.
    2 * (num_ranks - 1)  ->  num_ranks - 1

ring_all_reduce_s__both_directions
the bytes take half as long, as if a half trip were all or both directions carried them.
Each rank sends 2(p-1)/p of the bytes one way round; what comes in at the same time is another
rank's traffic. busbw is one direction.
    payload_bytes / busbw_bytes_per_s  ->  payload_bytes / 2 / busbw_bytes_per_s

ring_all_reduce_s__p_hops
a ring of p ranks makes 2p hops instead of 2(p-1).
After p-1 hops every chunk has met all p ranks; one more would bring it back to its start.
    hops * a_s  ->  2 * num_ranks * a_s

Rejected by: test_communication_share__divides_by_the_whole_step

communication_share__of_the_step_alone
the bill is divided by the step without communication.
That is an overhead, and it can exceed 1. A share is bill / (bill + step).
    bill_s / (bill_s + step_s) if bill_s  ->  bill_s / step_s if step_s

communication_share__one_message
a step sends one message.
One all-reduce of 7 us looks harmless; a step has 64 of them, one after the other.
    num_messages * message_s  ->  message_s

Rejected by: test_crossover_bytes__splits_the_time_in_half

crossover_bytes__no_constant
the latency is the hops alone, without c.
c belongs to the latency: it is paid whether or not there are bytes.
    c_s + 2 * (num_ranks - 1) * a_s  ->  2 * (num_ranks - 1) * a_s

crossover_bytes__latency_times_bandwidth
the crossover is latency times bandwidth, as for a single message.
A ring carries 2(p-1)/p times the payload, so the payload at the crossover is smaller.
    busbw_bytes_per_s * num_ranks / (2 * (num_ranks - 1))  ->  busbw_bytes_per_s

Rejected by: test_step_s__has_two_roofs

step_s__reads_per_token
the weights are read again for every token.
That is what a batch saves: a weight is read once and multiplied with every token of the step.
    reading_s = decode_step_s(  ->  reading_s = tokens * decode_step_s(

step_s__only_memory
a step takes as long as reading, however many tokens it holds.
From about 300 tokens on an H100 multiplies longer than it reads. Whoever leaves that out
finds that tensor parallelism never pays at large batch, where it pays most.
    max(reading_s, flops / (num_ranks * flops_per_s))  ->  reading_s

step_s__one_flop
a weight costs one flop per token.
It costs two: the product, and its addition to the sum. Vendors count both.
    2 * tokens  ->  tokens

step_s__one_after_the_other
the rank first reads everything and multiplies afterwards.
A GPU multiplies one tile while it reads the next: the slower of the two decides.
    max(reading_s, flops / (num_ranks * flops_per_s))
    ->  reading_s + flops / (num_ranks * flops_per_s)

step_s__every_rank_multiplies_all
the arithmetic is not sharded.
A rank multiplies with the weights that it holds, 1/p of them, as it reads only those.
    (num_ranks * flops_per_s)  ->  flops_per_s

step_s__bytes_for_weights
bytes are counted where weights are multiplied.
A BF16 weight is two bytes and one factor: 16 GB are 8 billion weights.
    weight_bytes / element_bytes  ->  weight_bytes

step_s__two_byte_weights
every weight has two bytes, whatever element_bytes says.
The same bytes hold twice as many weights of one byte, and each wants its two flops.
    weight_bytes / element_bytes  ->  weight_bytes / 2

step_s__at_most_two_bytes
a weight of four bytes is taken for one of two.
FP32 weights are half as many in the same bytes, and so are their flops.
    / element_bytes  ->  / min(2, element_bytes)

Rejected by: test_link_bytes_per_s__one_direction

link_bytes_per_s__both_directions
both directions of an NVLink are counted for a message that goes one way.
NVLink 4 prints 900 GB/s: 450 out and 450 in. A rank's outgoing traffic has the 450.
    1e9 / 2  ->  1e9

link_bytes_per_s__gib
GB is taken for GiB.
Vendors print powers of ten: 1 GB/s is 1e9 bytes per second. 7% is more than the error of a
good prediction.
    1e9  ->  2**30

link_bytes_per_s__bits
the bits of a network are taken for bytes.
10 GbE is 10 gigabits per second: 1.25 GB/s.
    1e9 / 8  ->  1e9

Rejected by: test_all_reduce_range_s__best_and_worst

all_reduce_range_s__low_ends_together
the low ends of all three columns are taken together.
A low c and a are good, a low busbw is bad: the best box has low times and a high rate.
    low_a, high_busbw  ->  low_a, low_busbw
    high_a, low_busbw  ->  high_a, high_busbw

all_reduce_range_s__worst_first
the worst box comes first.
The docstring's order is (best_s, worst_s): the shorter time first.
    return best_s, worst_s  ->  return worst_s, best_s

all_reduce_range_s__rate_of_the_data_sheet
the rates are the link's printed ones and not those measured, busbw_bytes_per_s of LINKS.
A data sheet's rate is the wire's; a collective reaches a part of it.
    low_busbw, high_busbw = row["busbw_bytes_per_s"]
    ->  low_busbw = high_busbw = link_bytes_per_s(link)

Rejected by: test_tensor_parallel_sides__paid_and_saved

tensor_parallel_sides__saved_comes_first
what is saved comes first.
Two numbers of seconds, and only their order says which is the price.
    return num_messages * message_s, saved_s  ->  return saved_s, num_messages * message_s

tensor_parallel_sides__saves_the_step
the saving is the whole sharded step.
TP does not save what each rank still has to do. The saving is what it no longer does, the step
on one rank less the step on p ranks.
    step_s(weight_bytes, 1, *work) - step_s(  ->  step_s(

tensor_parallel_sides__only_reading_saved
only reading is saved, whatever the batch.
At 4,096 tokens eight H100s spare each other seven eighths of the arithmetic: that is far more
than the messages cost.
    (memory_bytes_per_s, tokens, flops_per_s, element_bytes)  ->  (memory_bytes_per_s,)

tensor_parallel_sides__reads_two_byte_weights
the weights are read as if each had two bytes.
weight_bytes are bytes already; element_bytes says how many weights they are.
    (memory_bytes_per_s, tokens  ->  (memory_bytes_per_s * 2 / element_bytes, tokens

tensor_parallel_sides__pays_one_message
one message is paid instead of all of them.
message_s is the time of one; a step of 32 layers has 64, one after the other.
    num_messages * message_s  ->  message_s

Rejected by: test_reduce_scatter_s__is_half_a_ring

reduce_scatter_s__counted_twice
a reduce-scatter costs as much as an all-reduce.
It is the first half of one: p-1 hops, (p-1)/p of the bytes. Counting it twice makes sequence
parallelism look dearer than it is.
    hops = num_ranks - 1  ->  hops = 2 * (num_ranks - 1)

reduce_scatter_s__whole_payload
a rank sends its whole payload, its own chunk included.
1/p of the bytes is the rank's own and stays at home.
    hops / num_ranks * payload_bytes  ->  payload_bytes

reduce_scatter_s__half_of_all
everything is half of an all-reduce, the launch too.
The hops and the bytes are half; c is paid in full.
    c_s + hops * a_s  ->  c_s / 2 + hops * a_s

Rejected by: test_bus_bandwidth__is_what_nccl_tests_prints

bus_bandwidth__algorithm_bandwidth
bytes over seconds are returned without the factor.
Bytes over seconds falls with the ranks even on a perfect wire; the factor takes that out.
    seconds_s * sent  ->  seconds_s

bus_bandwidth__all_reduce_for_all
every operation is taken for an all-reduce.
Reduce-scatter, all-gather and all-to-all carry (p-1)/p of the payload, half of an all-reduce.
    seconds_s * sent  ->  seconds_s * 2 * part

bus_bandwidth__broadcast_spares_the_root
a broadcast carries (p-1)/p of the bytes.
The root sends every byte, and each link of the chain passes every byte on: the factor is 1.
    "broadcast": 1, "reduce": 1  ->  "broadcast": part, "reduce": part

bus_bandwidth__all_to_all_sends_all
an all-to-all sends all of its bytes.
A rank keeps the block that is meant for itself, 1/p of its bytes.
    "broadcast": 1  ->  "all_to_all": 1, "broadcast": 1

Rejected by: test_one_shot_all_reduce_s__reads_every_peer

one_shot_all_reduce_s__one_buffer
a rank reads one buffer, however many peers it has.
All peers' buffers come over this rank's one link, p-1 of them.
    (num_ranks - 1) * payload_bytes  ->  payload_bytes

one_shot_all_reduce_s__its_own_too
a rank reads its own buffer over the link, too.
That one it has; there are p-1 peers.
    (num_ranks - 1) * payload_bytes  ->  num_ranks * payload_bytes

one_shot_all_reduce_s__a_kernel_per_peer
every peer costs a kernel.
One kernel reads them all.
    return kernel_s  ->  return (num_ranks - 1) * kernel_s

one_shot_all_reduce_s__ring_bytes
one shot moves only a ring's bytes.
Every rank reads the whole buffer of each of its p-1 peers: that is the price of one round.
    (num_ranks - 1) * payload_bytes  ->  2 * (num_ranks - 1) / num_ranks * payload_bytes

Rejected by: test_two_shot_all_reduce_s__has_two_rounds

two_shot_all_reduce_s__one_round
two shots cost one fixed part.
Nobody may gather before everybody has reduced: there is a second round, and it is priced too.
    2 * kernel_s  ->  kernel_s

Rejected by: test_fastest_all_reduce__switches_with_the_payload

fastest_all_reduce__fixed_threshold
one shot is used up to 512 KiB and two shots above, whatever the ranks.
Where the lines cross depends on the ranks: never for two, near 0.4 MB for eight.
    min(costs, key=costs.get)  ->  "one_shot" if payload_bytes <= 512 * 1024 else "two_shot"

fastest_all_reduce__ring_first
a tie goes to the ring instead of the simplest kernel.
On one rank all three cost nothing. Among equals the docstring's order decides: one_shot first.
    min(costs, key=costs.get)  ->  min(reversed(costs), key=costs.get)

fastest_all_reduce__tie_by_name
a tie of two_shot and ring goes to the ring, as with min() of (seconds, name) or a strict `<`.
"ring" stands before "two_shot" there. Among equals the docstring's order decides, so compare
the seconds alone: min(costs, key=costs.get).
    key=costs.get  ->  key=lambda name: (costs[name], name)

fastest_all_reduce__no_ring_for_small_payloads
the ring is asked for large payloads only.
That is what usually comes out. With a quick ring and a slow kernel the ring also wins at 8 KiB.
    min(costs,  ->  min(list(costs)[: 3 if payload_bytes >= 512 * 1024 else 2],

Rejected by: test_hierarchical_all_reduce_s__each_gpu_its_part

hierarchical_all_reduce_s__whole_payload_across
every GPU sends the whole payload across the nodes, or shares one card with the others.
The reduce-scatter left each GPU with 1/g of it, and each has its own network card.
    payload_bytes / gpus_per_node  ->  payload_bytes

hierarchical_all_reduce_s__three_launches
each of the three stages pays its own launch.
They are one kernel; the constant is paid once.
    0.0, node_a_s  ->  c_s, node_a_s
    0.0, network_a_s  ->  c_s, network_a_s
    return c_s + reduce_scatter_s  ->  return reduce_scatter_s

hierarchical_all_reduce_s__gathers_only_its_part
the all-gather is given a GPU's part for its payload.
An all-gather's payload is the gathered whole, of which each GPU had 1/g.
    all_gather_s(*node)  ->  all_gather_s(node[0], node[1] / gpus_per_node, *node[2:])

Rejected by: test_predict_all_reduce_s__takes_the_fastest_protocol

predict_all_reduce_s__straight_line
there is one protocol with the best of all, low latency and full bandwidth.
No protocol has both; at 1 to 16 MiB the straight line is 20 to 40% too low.
    payload_bytes + fill, factor * c_s, factor * a_s, part * busbw_bytes_per_s
    ->  payload_bytes, c_s, a_s, busbw_bytes_per_s

predict_all_reduce_s__always_the_first
the protocol for small payloads is used for all.
Half of what it sends is flags: above a few MiB it loses half the bandwidth.
    in protocols  ->  in protocols[:1]

predict_all_reduce_s__fill_at_the_end
the pipeline is filled once, by one rank, instead of travelling round like the payload.
The chunks under way make the same 2(p-1)/p trips as the payload behind them.
    payload_bytes + fill  ->  payload_bytes
    for factor, part, fill  ->  + fill / busbw_bytes_per_s for factor, part, fill

predict_all_reduce_s__factor_on_the_hops
the factor slows the hops and not the launch.
A row's factor is on c and on a, as its comment says.
    factor * c_s  ->  c_s

predict_all_reduce_s__knows_only_nccl
NCCL's protocols are used, whatever is given.
gloo has one protocol; measure.py gives STRAIGHT_LINE.
    in protocols  ->  in NCCL_PROTOCOLS

predict_all_reduce_s__sends_no_fill
what fills the pipeline is left out.
Before the first byte of payload comes out, the fill has gone round like payload.
    payload_bytes + fill  ->  payload_bytes

Rejected by: test_equation__holds_for_every_c_a_and_busbw

equation__fill_beside_the_ring
the bytes that fill the pipeline stand beside the payload, without the factor 2(p-1)/p.
They travel round like the payload. Fitted and predicted by two formulas, constants drift.
    hops / num_ranks * (payload_bytes + fill)  ->  (hops / num_ranks * payload_bytes + fill)

equation__seconds_not_divided
the terms add up to the seconds instead of to 1.
least_squares wants 1 on the right of every row: divide each term by the measured seconds.
    term / seconds_s  ->  term

equation__full_bandwidth
every protocol has the whole bus bandwidth for payload.
LL has 0.45 of it: the rest carries flags, so each byte costs 1/0.45 as much.
    (payload_bytes + fill) / part  ->  (payload_bytes + fill)

equation__fill_at_full_bandwidth
what fills the pipeline travels at the whole busbw, the payload at its part.
Fill is sent like payload: both have only the part of the bandwidth that the flags leave.
    (payload_bytes + fill) / part  ->  (payload_bytes / part + fill)

Rejected by: test_calibrate__returns_what_made_the_points,
test_calibrate__predicts_what_was_not_measured

calibrate__fits_once
the points are fitted once, and the protocol is never chosen again.
The first constants come from a straight line through all points. The large one was measured with
another protocol than the small ones: its latency is higher, and part of its time fills the
pipeline. Only the fit after the choice knows which formula each point obeys.
    range(4)  ->  range(1)

calibrate__fits_the_first_row_once
the points are fitted once, with the first row of protocols for all.
Each point has the protocol that is fastest for it: choose it with the constants found, fit again.
    [STRAIGHT_LINE[0]] * len(points)  ->  [protocols[0]] * len(points)
    range(4)  ->  range(1)

Rejected by: test_calibrate__returns_what_made_the_points

calibrate__two_fits
a point has not yet its fastest protocol in the last fit, as after two fits.
With several large points the first choice of protocols can be wrong for two of them, and the
second fit is then still off. Four are enough.
    range(4)  ->  range(2)

calibrate__takes_seconds_per_byte_for_busbw
fastest_protocol is given the fit's third number as it is.
least_squares finds 1/busbw, seconds per byte; fastest_protocol wants busbw, bytes per second.
    a_s, 1 / s_per_byte, protocols)  ->  a_s, s_per_byte, protocols)

calibrate__begins_with_the_first_row
the first fit takes the first row of protocols for every point.
Whose factors need not be 1: four fits from there may not be enough.
    [STRAIGHT_LINE[0]] * len(points)  ->  [protocols[0]] * len(points)

calibrate__small_points_take_the_first_row
small payloads take the first row of protocols, and only the others the fastest.
So it is in NCCL's table. In another one the first row may be that of the large payloads.
    for point in points]  ->  if point[1] > 1e5 else protocols[0] for point in points]

calibrate__chooses_among_nccl_s_rows
the points choose among NCCL's protocols, whatever is given.
The library that was measured has the rows that the caller names.
    1 / s_per_byte, protocols)  ->  1 / s_per_byte, NCCL_PROTOCOLS)

calibrate__stops_when_the_first_point_keeps_its_protocol
the fits end as soon as the first point keeps its protocol.
The others may not have found theirs: each of them is an equation, too.
    chosen = [fastest  ->  new = [fastest
    for point in points]  ->  for point in points]; chosen = chosen if new[0] == chosen[0] else new

Rejected by: test_calibrate__weighs_every_point_the_same

calibrate__three_points_only
only the first three points are fitted.
Three fix the constants; every further one makes them surer, and may cover another payload.
    zip(points, chosen, strict=True)  ->  zip(points[:3], chosen)

Rejected by: test_calibrate__refuses_points_that_fix_nothing

calibrate__infinite_busbw
a busbw that the points do not give is called infinite.
The largest payload was the fastest: that is a measurement to repeat, not a wire without end.
    raise ValueError("points give no busbw (bytes/s): the large payload is not the slowest")
    ->  return c_s, a_s, math.inf

Rejected by: test_decode_step_s__shards_the_weights

decode_step_s__unsharded
the step is that of one rank, as if the weights were not sharded.
The comforting denominator: at TP=8 a loss of more than half looks like a sixth. Each rank reads
only W/p, so the step shrinks while the bill grows.
    (num_ranks * memory_bytes_per_s)  ->  memory_bytes_per_s
"""


def calibrate__least_squares_of_seconds(points, protocols=NCCL_PROTOCOLS):
    """the fit minimises errors in seconds, so the largest payload decides alone.

    A 1% error at 512 MiB is 20 us, three times the whole bill at 8 KiB. Divide each equation by
    its measured seconds.
    Rejected by: test_calibrate__returns_what_made_the_points
    """
    rows = [[1, 2 * (p - 1), Fraction(2 * (p - 1)) * Fraction(size) / p] for p, size, _ in points]
    seconds = [Fraction(seconds_s) for _, _, seconds_s in points]
    table = [  # the normal equations, exactly
        [sum(row[i] * row[j] for row in rows) for j in range(3)]
        + [sum(row[i] * one for row, one in zip(rows, seconds, strict=True))]
        for i in range(3)
    ]
    for k in range(3):
        table[k] = [value / Fraction(table[k][k]) for value in table[k]]
        for i in {0, 1, 2} - {k}:
            factor = table[i][k]
            table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
    c_s, a_s, s_per_byte = (row[3] for row in table)
    return float(c_s), float(a_s), float(1 / s_per_byte)
