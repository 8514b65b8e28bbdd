"""Lab 03: the communication bill of tensor parallelism. The oracles stand here.

The oracle of a ring walks it hop by hop; the learner's formula must agree. Measurements come from
measurements.jsonl, whose rows name their sources. Tolerances are relative 1e-12: every expected
value is a handful of float64 operations, whatever their order. Helpers stand at the end.
"""

import json
import math
import random
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import median

import pytest

from labkit.expect import expect_close, expect_equal, expect_error

KiB, MiB, GiB, us = 1024, 1024**2, 1024**3, 1e-6
RING_CHECK = "test_ring_all_reduce_s__walks_the_ring"
STEP_CHECK = "test_decode_step_s__shards_the_weights"
SHARE_CHECK = "test_communication_share__divides_by_the_whole_step"
SCATTER_CHECK = "test_reduce_scatter_s__is_half_a_ring"
SHOT_CHECKS = (
    "test_one_shot_all_reduce_s__reads_every_peer",
    "test_two_shot_all_reduce_s__has_two_rounds",
)
PREDICT_CHECK = "test_predict_all_reduce_s__takes_the_fastest_protocol"
EQUATION_CHECK = "test_equation__holds_for_every_c_a_and_busbw"


# --- Task 1 --------------------------------------------------------------------------------------


@pytest.mark.points(3)
def test_step_messages__two_per_layer(lab):
    """A step of an 8B model sends 64 messages: 8 KiB in decode."""
    idea = "attention and MLP end in one all-reduce each, of [tokens, hidden_size] elements"
    expect_equal(lab.step_messages(32, 1, 4096, 2), (64, 8192), idea=idea)
    expect_equal(lab.step_messages(32, 2**18, 4096, 2), (64, 2 * GiB), idea=idea)
    chance = random.Random(1)
    for width in (1, 2, 4, 8):
        layers, tokens, hidden = (chance.randint(2, most) for most in (99, 999, 9999))
        one_layer = [(tokens, hidden)] * 2  # the shapes of what is summed: attention, MLP
        payload = sum(width for _ in range(tokens)) * one_layer[0][1]
        expected = (sum(len(one_layer) for _ in range(layers)), payload)
        expect_equal(lab.step_messages(layers, tokens, hidden, width), expected, idea=idea)


@pytest.mark.points(8)
def test_ring_all_reduce_s__walks_the_ring(lab):
    """A ring pays c once, p-1 hops there, p-1 hops back, and a chunk per hop."""
    idea = "p-1 hops to reduce, p-1 to gather, a chunk of bytes/p each; c once; one rank pays 0"
    for num_ranks, payload, ring in product(some_ranks(), payloads(), rings()):
        result = lab.ring_all_reduce_s(num_ranks, payload, *ring)
        close(result, walk(num_ranks, payload, *ring, rounds=2), idea)


@pytest.mark.points(4)
def test_decode_step_s__shards_the_weights(lab):
    """Each rank reads only its share of the weights in a step."""
    chance = random.Random(2)
    drawn = 16e9, 0, chance.uniform(1e9, 1e12)
    for weights, num_ranks, rate in product(
        drawn, some_ranks(), (1e12, chance.uniform(1e11, 1e13))
    ):
        expected = Fraction(weights) / num_ranks / Fraction(rate)
        result = lab.decode_step_s(weights, num_ranks, rate)
        close(result, expected, "p ranks read W/p bytes each, at the same time")


@pytest.mark.points(4)
def test_communication_share__divides_by_the_whole_step(lab):
    """The share is of the step with its messages, so it stays below 1."""
    chance = random.Random(3)
    message, step = chance.uniform(1, 99) * 1e-12, chance.uniform(1, 99) * 1e-3
    for count, message_s, step_s in product(
        (1, 64, chance.randint(2, 300)), (7 * us, message, 0.0), (640 * us, step, 0.0)
    ):
        spent = [message_s] * count
        whole = sum(map(Fraction, spent)) + Fraction(step_s)
        expected = 1 - Fraction(step_s) / whole if whole else 0
        result = lab.communication_share(count, message_s, step_s)
        # a share is near 1 at most, so that 1 - the step's share may have its rounding
        close(result, expected, "the bill over the bill and the step together", at_least=1e-14)


@pytest.mark.points(4)
@pytest.mark.waits_for(RING_CHECK, STEP_CHECK, SHARE_CHECK)
def test_communication_share__of_published_latencies(lab):
    """8B TP=2 loses >40% on 10 GbE, <10% by one-shot on NVLink; TP=8 by NCCL >40% again."""

    slower = random.Random(4).uniform(0.5, 2)  # in everything: the shares stay

    def share(num_ranks, message_s, bytes_per_s):
        bytes_per_s, messages_s = bytes_per_s / slower, MESSAGES_8B * message_s
        step_s = lab.decode_step_s(WEIGHTS_8B, num_ranks, bytes_per_s)
        lost = lab.communication_share(MESSAGES_8B, message_s, step_s)
        whole_s = WEIGHTS_8B / num_ranks / bytes_per_s + messages_s
        close(lost, messages_s / whole_s, "the messages' part of the step that they prolong")
        return lost

    c_s, a_s, busbw = ETHERNET
    ethernet_s = lab.ring_all_reduce_s(2, 8 * KiB, slower * c_s, slower * a_s, busbw / slower)
    lost = share(2, ethernet_s, A100_BYTES_PER_S)
    assert 0.40 < lost < 1, f"8B, A100, TP=2 over 10 GbE loses {lost:.0%}; it must be above 40%"
    one_shot_s = slower * measured_s("custom_all_reduce", "H100", 2, 8 * KiB, "CUDA graph")
    lost = share(2, one_shot_s, H100_BYTES_PER_S)
    assert 0 < lost < 0.10, f"8B, H100, TP=2, one-shot on NVLink loses {lost:.0%}; want under 10%"
    nccl_s = slower * measured_s("nccl_all_reduce", "H100", 8, 8 * KiB)
    lost = share(8, nccl_s, H100_BYTES_PER_S)
    assert 0.40 < lost < 1, (
        f"8B, H100, TP=8, NCCL on NVLink loses {lost:.0%}; it must be above 40%: the step is "
        "sharded too, so the bill grows while the step shrinks."
    )


@pytest.mark.points(4)
def test_crossover_bytes__splits_the_time_in_half(lab):
    """At the crossover payload the bytes cost as much as the latency."""
    for num_ranks, ring in product(some_ranks()[1:], rings()):
        latency_s = walk(num_ranks, 0, *ring, rounds=2)
        per_byte_s = walk(num_ranks, 1, 0, 0, ring[2], rounds=2)
        idea = "the payload at which c and the hops take as long as the bytes"
        close(lab.crossover_bytes(num_ranks, *ring), latency_s / per_byte_s, idea)
    close(lab.crossover_bytes(1, *rings()[0]), 0, "one rank never waits")


# --- Task 2 --------------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.waits_for(STEP_CHECK)
def test_step_s__has_two_roofs(lab):
    """A step reads the weights once, and multiplies once per token."""
    idea = "a rank reads W/p bytes and makes 2 flops per weight and token; the slower one decides"
    (weights, memory, flops), ridge = machine(), 300  # tokens; of one-byte weights, half as many
    for num_ranks, tokens, width in product(
        some_ranks(), (1, 64, ridge // 2, ridge, ridge + 1, 4096), (0.5, 1, 2)
    ):
        reading = Fraction(weights) / num_ranks / Fraction(memory)
        arithmetic = Fraction(weights) / width * 2 * tokens / num_ranks / Fraction(flops)
        result = lab.step_s(weights, num_ranks, memory, tokens, flops, width)
        close(result, max(reading, arithmetic), idea)
    for more in ({}, {"tokens": 10**9}, {"flops_per_s": memory}):
        result = lab.step_s(weights, 2, memory, **more)
        close(result, weights / 2 / memory, "without flops_per_s, reading is the only roof")
    # Printed rates of an H100: 295 tokens still wait for memory, 296 multiply.
    roofs = [lab.step_s(16e9, 1, 3.35e12, tokens, 989e12) for tokens in (1, 295, 296)]
    finite(*roofs)
    assert roofs[0] == roofs[1] < roofs[2], f"1, 295 and 296 tokens take {roofs} s on an H100"


@pytest.mark.points(3)
def test_link_bytes_per_s__one_direction(lab):
    """A rank's link carries one direction, in bytes."""
    for link, rate in ONE_WAY.items():
        idea = "8 bits are a byte; what goes one way is half of both directions"
        close(lab.link_bytes_per_s(link), rate, idea)


@pytest.mark.points(3)
@pytest.mark.waits_for(RING_CHECK)
def test_all_reduce_range_s__best_and_worst(lab):
    """A bill is an interval, since boxes differ."""
    for link, num_ranks, payload in product(ENDS, some_ranks(), payloads()):
        best, worst = (walk(num_ranks, payload, *end, rounds=2) for end in ENDS[link])
        result = lab.all_reduce_range_s(link, num_ranks, payload)
        idea = "best: low c, low a, high busbw; worst: the other ends"
        close_tuple(result, {"best_s": best, "worst_s": worst}, idea)


@pytest.mark.points(5)
@pytest.mark.waits_for(STEP_CHECK, "test_step_s__has_two_roofs")
def test_tensor_parallel_sides__paid_and_saved(lab):
    """TP pays when its messages cost less than the step it spares."""
    idea = "paid = messages x seconds; saved = step on one rank - step on p ranks"
    weights, memory, flops = machine()
    chance = random.Random(5)
    for num_ranks, count, message_s, tokens in product(
        some_ranks(), (1, chance.randint(2, 200)), (0.0, chance.uniform(1, 99) * us), (1, 4096)
    ):
        # 2-byte weights: a flop per byte and token
        alone = max(weights / memory, weights * tokens / flops)
        expected = {"paid_s": count * message_s, "saved_s": alone - alone / num_ranks}
        work = (weights, memory, num_ranks, count, message_s)
        close_tuple(lab.tensor_parallel_sides(*work, tokens, flops), expected, idea)
        for more in ({}, {"tokens": 10**9}, {"flops_per_s": memory}) if tokens == 1 else ():
            close_tuple(lab.tensor_parallel_sides(*work, **more), expected, idea)
    work = (weights, memory, 2, 64, 0.0, 1000, flops)
    byte_wide = {"paid_s": 0.0, "saved_s": weights * 2 * 1000 / flops / 2}
    close_tuple(lab.tensor_parallel_sides(*work, element_bytes=1), byte_wide, idea)


# --- Task 3 --------------------------------------------------------------------------------------


@pytest.mark.points(5)
def test_reduce_scatter_s__is_half_a_ring(lab):
    """Reduce-scatter and all-gather are half a trip."""
    idea = "p-1 hops, each with bytes/p; a rank keeps its own chunk; c once"
    for num_ranks, payload, ring in product(some_ranks(), payloads(), rings()):
        expected = walk(num_ranks, payload, *ring, rounds=1)
        for half in (lab.reduce_scatter_s, lab.all_gather_s):
            close(half(num_ranks, payload, *ring), expected, idea)


@pytest.mark.points(5)
def test_bus_bandwidth__is_what_nccl_tests_prints(lab):
    """Bus bandwidth is what a rank's link carried."""
    idea = "bytes / seconds, times the part of the bytes that a rank's link carries"
    some_s = random.Random(6).uniform(1, 99) * us
    for num_ranks, payload, seconds_s in product(some_ranks(), payloads(), (0.7, some_s)):
        for operation, rounds in ROUNDS.items():
            if num_ranks == 1 and not rounds:
                continue  # no link, and nccl-tests prints bytes over seconds
            chunks = rounds * (num_ranks - 1) if rounds else num_ranks
            expected = Fraction(payload) / num_ranks * chunks / Fraction(seconds_s)
            close(lab.bus_bandwidth(operation, num_ranks, payload, seconds_s), expected, idea)
    seconds_s = measured_s("nccl_all_reduce", "H100", 8, 512 * MiB)
    rate = lab.bus_bandwidth("all_reduce", 8, 512 * MiB, seconds_s)
    assert 444e9 < rate < 446e9, f"512 MiB over 8 H100 in {seconds_s} s is 445 GB/s, not {rate:.4g}"


# --- Task 4 --------------------------------------------------------------------------------------


@pytest.mark.points(3)
def test_one_shot_all_reduce_s__reads_every_peer(lab):
    """One shot: every rank reads all of its peers' buffers at once."""
    for num_ranks, payload, (kernel_s, _, rate) in product(some_ranks(), payloads(), rings()):
        peers = [payload / rate] * (num_ranks - 1)
        expected = kernel_s + sum(peers) if peers else 0.0
        result = lab.one_shot_all_reduce_s(num_ranks, payload, kernel_s, rate)
        close(
            result,
            expected,
            "one kernel, and the whole buffer of each of p-1 peers; one rank pays nothing",
        )


@pytest.mark.points(3)
@pytest.mark.waits_for(RING_CHECK)
def test_two_shot_all_reduce_s__has_two_rounds(lab):
    """Two shots: two rounds between the ranks, and a ring's bytes."""
    for num_ranks, payload, (kernel_s, _, rate) in product(some_ranks(), payloads(), rings()):
        expected = walk(num_ranks, payload, 2 * kernel_s, 0.0, rate, rounds=2)
        result = lab.two_shot_all_reduce_s(num_ranks, payload, kernel_s, rate)
        close(result, expected, "kernel_s for each of two rounds, no hops, the ring's bytes")


@pytest.mark.points(4)
@pytest.mark.waits_for(RING_CHECK, *SHOT_CHECKS)
def test_fastest_all_reduce__switches_with_the_payload(lab):
    """Up to {two} ranks two shots never win; eight switch with the payload."""
    rate = 448e9
    slow, quick = (5 * us, 5 * us, 0.8 * us, rate), (5 * us, 1 * us, 0.1 * us, rate)
    even = (3 * 2**-20, 6 * 2**-20, 0.0, 2.0**36)  # few bits: a tie in whatever order they add
    fastest, tie = "the lowest of the three lines at this payload", "a tie: the docstring's order"
    for num_ranks, payload, constants, name, seconds_s in (
        (2, 1 * GiB, slow, "one_shot", 5 * us + GiB / rate),
        (8, 256 * KiB, slow, "one_shot", 5 * us + 7 * 256 * KiB / rate),
        (8, 512 * KiB, slow, "two_shot", 10 * us + 1.75 * 512 * KiB / rate),
        (8, 512 * KiB, quick, "ring", 2.4 * us + 1.75 * 512 * KiB / rate),
        (8, 8 * KiB, quick, "ring", 2.4 * us + 1.75 * 8 * KiB / rate),
        (4, 64 * KiB, slow, "one_shot", 5 * us + 3 * 64 * KiB / rate),
        (4, 4 * MiB, slow, "ring", 9.8 * us + 1.5 * 4 * MiB / rate),
        (1, 1 * GiB, slow, "one_shot", 0.0),  # a tie of all three
        (4, 128 * KiB, even, "one_shot", 9 * 2**-20),  # of all three
        (8, 1 * GiB, even, "two_shot", 6 * 2**-20 + 1.75 * 2**-6),  # of two-shot and the ring
    ):
        choice = lab.fastest_all_reduce(num_ranks, payload, *constants)
        a_pair(choice, ("name", "seconds"))
        idea = tie if constants is even or num_ranks == 1 else fastest
        expect_equal(choice[0], name, part="[0]", idea=idea)
        close(choice[1], seconds_s, idea, part="[1]")
    for num_ranks, payload, (c_s, a_s, busbw), kernel_s in product(
        (2, 3, 8), payloads(), rings(), (5 * us, 100 * us)
    ):
        seconds_s = {
            "one_shot": kernel_s + (num_ranks - 1) * payload / busbw,
            "two_shot": walk(num_ranks, payload, 2 * kernel_s, 0.0, busbw, rounds=2),
            "ring": walk(num_ranks, payload, c_s, a_s, busbw, rounds=2),
        }
        best = min(seconds_s.values())
        names = [name for name in seconds_s if math.isclose(seconds_s[name], best, rel_tol=1e-12)]
        choice = lab.fastest_all_reduce(num_ranks, payload, kernel_s, c_s, a_s, busbw)
        a_pair(choice, ("name", "seconds"))
        close(choice[1], best, fastest, part="[1]")
        assert choice[0] in names, (
            f"returned {choice!r} for {num_ranks} ranks and {payload} bytes; the fastest is {names}"
        )


@pytest.mark.points(4)
@pytest.mark.waits_for(RING_CHECK, SCATTER_CHECK)
def test_hierarchical_all_reduce_s__each_gpu_its_part(lab):
    """Across nodes each GPU reduces only its own part of the payload."""
    idea = "reduce-scatter inside, all-reduce bytes/g across, all-gather inside; one c, or none"
    *_, (c_s, *node), (_, *network) = rings()
    for (nodes, gpus), payload in product(CLUSTERS, payloads()):
        inside = walk(gpus, payload, 0, *node, rounds=2)
        across = walk(nodes, payload / gpus, 0, *network, rounds=2)
        expected = c_s + inside + across if nodes * gpus > 1 else 0.0
        result = lab.hierarchical_all_reduce_s(nodes, gpus, payload, c_s, *node, *network)
        close(result, expected, idea)
    # Measured on 4 x 8 B200: 22.2 ms. Stages in turn cost 25 ms; perfectly overlapped, 16.
    measured = 1.9375 * 4 * GiB / 374.66e9
    serial = lab.hierarchical_all_reduce_s(4, 8, 4 * GiB, 7 * us, 1 * us, 839e9, 5 * us, 50e9)
    assert measured < serial < 1.2 * measured, f"4 x 8 B200, 4 GiB: {serial:.4f} s"


# --- Task 5 --------------------------------------------------------------------------------------


@pytest.mark.points(4)
def test_expert_parallel_bytes__as_deepep_counts_them(lab):
    """Dispatch and combine move tokens x top_k x hidden, as DeepEP."""
    idea = "every token goes to top_k experts: FP8 and a scale out, BF16 back"
    chance = random.Random(7)
    for out, back in product((1.5, chance.uniform(1, 2)), (1, chance.uniform(2, 4))):
        tokens, top_k, hidden = (chance.randint(2, most) for most in (200, 256, 9999))
        scales = Fraction(hidden, 128) * 4  # of one copy, in bytes
        usual = {
            "dispatch_bytes": tokens * top_k * (hidden + scales),
            "combine_bytes": tokens * top_k * hidden * 2,
        }
        close_tuple(lab.expert_parallel_bytes(tokens, top_k, hidden), usual, idea)
        copies = sum(hidden for _ in range(tokens) for _ in range(top_k))
        expected = {"dispatch_bytes": copies * out, "combine_bytes": copies * back}
        close_tuple(lab.expert_parallel_bytes(tokens, top_k, hidden, out, back), expected, idea)
    printed = {"dispatch_bytes": 7569408, "combine_bytes": 14680064}
    close_tuple(lab.expert_parallel_bytes(128, 8, 7168), printed, idea)
    sizes = dict(zip(("dispatch", "combine"), lab.expert_parallel_bytes(128, 8, 7168), strict=True))
    published = {
        (row["setting"]["op"], row["setting"]["ep"]): row["value"]
        for row in ROWS
        if row["kind"] == "moe_low_latency_bw"
    }
    times = [row for row in ROWS if row["kind"] == "moe_all_to_all"]
    assert len(times) == len(published) == 12
    for row in times:
        operation, ranks = row["setting"]["op"], row["setting"]["ep"]
        rate = sizes[operation] / (row["value"] * us) / 1e9
        want = published[operation, ranks]
        # Published in whole GB/s, cut rather than rounded: 39.8 stands there as 39, which is 2.1%.
        assert abs(rate / want - 1) < 0.022, (
            f"{operation} over {ranks} ranks: {rate:.1f} GB/s, published {want} GB/s"
        )


# --- Task 6 --------------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.waits_for(RING_CHECK)
def test_predict_all_reduce_s__takes_the_fastest_protocol(lab):
    """A library takes the protocol that is fastest at this payload."""
    idea = "each protocol is a ring of payload + fill, factor x c and a, part x busbw; the fastest"
    sizes = (0, 8 * KiB, 64 * KiB, 6 * MiB, 512 * MiB, 4 * GiB)
    for num_ranks, payload, ring in product((1, 2, 8), sizes, (*rings(), TRUTHS[1])):
        for protocols in (LINE, NCCL, NCCL[:2], NCCL[1:], NCCL[2:], MIDDLE, MIDDLE + NCCL):
            expected = fastest(num_ranks, payload, *ring, protocols)
            result = lab.predict_all_reduce_s(num_ranks, payload, *ring, protocols)
            close(result, expected, idea)
        result = lab.predict_all_reduce_s(num_ranks, payload, *ring)
        close(result, fastest(num_ranks, payload, *ring, NCCL), idea)


@pytest.mark.points(5)
def test_equation__holds_for_every_c_a_and_busbw(lab):
    """A measured point is one linear equation in c, a and 1/busbw."""
    idea = "the seconds of that protocol's ring, as a sum over c, a and 1/busbw, over the measured"
    for num_ranks, payload, protocol in product((2, 3, 8), (0, 1000, 3e6), NCCL + MIDDLE):
        factor, part, fill = protocol
        for ring in (*rings(), (1.0, 0.0, 1e30), (0.0, 1.0, 1e30), (0.0, 0.0, 1e-3)):
            c_s, a_s, busbw = ring
            seconds_s = walk(
                num_ranks, payload + fill, factor * c_s, factor * a_s, part * busbw, rounds=2
            )
            for measured in (seconds_s, 3 * us, 0.25):
                if measured > 0:
                    found = lab.equation((num_ranks, payload, measured), protocol)
                    three(found)
                    total = found[0] * c_s + found[1] * a_s + found[2] / busbw
                    close(total, seconds_s / measured, idea, part=", f c + g a + h / busbw")


@pytest.mark.points(5)
@pytest.mark.waits_for(RING_CHECK, PREDICT_CHECK, EQUATION_CHECK)
def test_calibrate__returns_what_made_the_points(lab):
    """Three points give back c, a and busbw."""
    idea = "fit, let each point take its fastest protocol, and fit again"
    slower = random.Random(8).uniform(0.5, 2)
    for protocols, (truth, chosen) in product((LINE, NCCL), [*product(TRUTHS, CHOSEN), *STUBBORN]):
        truth = (slower * truth[0], slower * truth[1], truth[2] / slower)
        points = [(p, size, fastest(p, size, *truth, protocols)) for p, size in chosen]
        expected = dict(zip(("c_s", "a_s", "busbw_bytes_per_s"), truth, strict=True))
        found = lab.calibrate(points, protocols) if protocols is LINE else lab.calibrate(points)
        # three unknowns that differ by a factor of 1e9 or more
        close_tuple(found, expected, idea, relative=1e-6, at_least=1e-12)


@pytest.mark.points(4)
@pytest.mark.waits_for(EQUATION_CHECK, "test_calibrate__returns_what_made_the_points")
def test_calibrate__weighs_every_point_the_same(lab):
    """Every point counts in the fit, the fast ones as much as the slow."""
    idea = "all points are given to least_squares, each divided by its own seconds"
    chance = random.Random(303)
    for count, truth in product((4, 5, 9), TRUTHS[:2]):
        sizes = [KiB, KiB, 64 * MiB, 512 * MiB] + [4 * KiB, MiB, 16 * MiB] * 2
        points = []
        for size in sizes[:count]:
            ranks = chance.choice((2, 3, 4, 8)) if points else 2
            noise = 1 + chance.uniform(-0.01, 0.01)
            points.append((ranks, size, noise * walk(ranks, size, *truth, rounds=2)))
        points[1] = (8, KiB, walk(8, KiB, *truth, rounds=2))
        points.append(points[-1])  # measured twice, and each counts
        expected = dict(zip(("c_s", "a_s", "busbw_bytes_per_s"), best_fit(points), strict=True))
        assert min(expected.values()) > 0  # so that no bound of least_squares is in the way
        close_tuple(lab.calibrate(points, LINE), expected, idea, relative=1e-6)


@pytest.mark.points(2)
@pytest.mark.waits_for(EQUATION_CHECK, "test_calibrate__returns_what_made_the_points")
def test_calibrate__refuses_points_that_fix_nothing(lab):
    """Points that cannot fix c, a and busbw are a ValueError that says so."""
    chance = random.Random(9)
    slower, sets = chance.uniform(0.5, 2), [(points, None) for points in UNFIT_POINTS]
    for protocols in (LINE, NCCL):  # what can be fitted is, wherever it comes among the others
        seconds_s = [fastest(p, size, *TRUTHS[0], protocols) for p, size in CHOSEN[0]]
        points = [(*point, s) for point, s in zip(CHOSEN[0], seconds_s, strict=True)]
        sets += [(points, protocols)] * 2
    for points, protocols in chance.sample(sets, len(sets)):
        points = [(ranks, size, slower * seconds_s) for ranks, size, seconds_s in points]
        if protocols:
            c_s, a_s, busbw = lab.calibrate(points, protocols)
            close(c_s, slower * TRUTHS[0][0], "these points fix c, a and busbw", 1e-6)
        else:
            idea = "check_points first; then 1/busbw > 0"
            expect_error(ValueError, lab.calibrate, points, idea=idea)


@pytest.mark.points(6)
@pytest.mark.waits_for(
    RING_CHECK, PREDICT_CHECK, EQUATION_CHECK, "test_calibrate__returns_what_made_the_points"
)
def test_calibrate__predicts_what_was_not_measured(lab):
    """Three points predict sizes and ranks that were not measured."""
    errors = {"up to 64 KiB": [], "between": [], "above 4 MiB": []}
    for gpu in ("A100", "H100", "L40S"):
        seconds_s = nccl_seconds(gpu)
        tiny = [(ranks, KiB, seconds_s[ranks, KiB]) for ranks in (2, 8)]
        fits = {p: lab.calibrate([*tiny, (p, HUGE, seconds_s[p, HUGE])]) for p in (2, 8)}
        fits[4] = (*fits[2][:2], lab.busbw_at(4, {p: fit[2] for p, fit in fits.items()}))
        for (ranks, size), measured in seconds_s.items():
            if size in (KiB, HUGE):
                continue
            predicted = lab.predict_all_reduce_s(ranks, size, *fits[ranks])
            finite(predicted)
            where = "up to 64 KiB" if size <= 64 * KiB else "between"
            where = "above 4 MiB" if size > 4 * MiB else where
            errors[where].append(abs(predicted / measured - 1))
    for where, limit in (("up to 64 KiB", 0.10), ("between", 0.10), ("above 4 MiB", 0.10)):
        found = median(errors[where])
        assert found <= limit, f"payloads {where}: median error {found:.0%}, want {limit:.0%}"


# --- The facts -----------------------------------------------------------------------------------

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("measurements.jsonl").read_text().splitlines()
]

# Llama-3.1-8B: 8.03e9 parameters in BF16, 32 layers, hidden size 4096.
WEIGHTS_8B, MESSAGES_8B = 16.06e9, 64
# A decode step achieves about 0.8 of the printed memory bandwidth.
A100_BYTES_PER_S, H100_BYTES_PER_S = 0.8 * 2.039e12, 0.8 * 3.35e12
# c, a, busbw of 10 GbE over TCP: c from NCCL's tuner; a hop is nccl-tests issue 82's broadcast of
# 38 to 46 us, less c; 10 Gb/s = 1.25e9 B/s.
ETHERNET = (6.6 * us, 35 * us, 1.25e9)
ONE_WAY = {
    "NVLink 3": 300e9,
    "NVLink 4": 450e9,
    "NVLink 5": 900e9,
    "PCIe 4": 31e9,
    "PCIe 5": 63e9,
    "10 GbE": 1.25e9,
    "100 GbE": 12.5e9,
    "200 GbE": 25e9,
    "400 GbE": 50e9,
    "InfiniBand NDR": 50e9,
}
# (low c, low a, high busbw) and (high c, high a, low busbw) of some rows of links.json.
ENDS = {
    "10 GbE": ((6.6 * us, 30 * us, 1.25e9), (8.4 * us, 39 * us, 1.06e9)),
    "PCIe 4": ((1.8 * us, 1.0 * us, 20e9), (6.6 * us, 1.4 * us, 1.4e9)),
    "NVLink 4": ((4.3 * us, 0.6 * us, 482e9), (6.6 * us, 0.9 * us, 320e9)),
    "200 GbE": ((6.6 * us, 2.7 * us, 25e9), (8.4 * us, 14 * us, 21e9)),
}
CLUSTERS = ((1, 1), (1, 8), (5, 1), (2, 2), (4, 8), (2, 3))
# How often a ring's chunks go round; 0: every byte crosses every link once.
ROUNDS = {
    "all_reduce": 2,
    "reduce_scatter": 1,
    "all_gather": 1,
    "all_to_all": 1,
    "broadcast": 0,
    "reduce": 0,
}
HUGE = 512 * MiB
LINE = ((1.0, 1.0, 0.0),)
NCCL = ((1.0, 0.45, 0.0), (4.0, 1.0, 0.0), (1.0, 1.0, 10e6))
MIDDLE = ((2.0, 0.8, 3e5),)
TRUTHS = (
    (5 * us, 0.8 * us, 448e9),
    (8 * us, 1.2 * us, 700e9),  # the large points take the protocol with a pipeline to fill
    (0.0, 40 * us, 1.25e9),
    (12 * us, 0.0, 3e9),
)
# Three points, in another order with empty ones, five.
CHOSEN = (
    ((2, KiB), (8, KiB), (4, HUGE)),
    ((4, HUGE), (8, 0), (2, 0)),
    ((2, KiB), (8, KiB), (4, HUGE), (3, 64 * KiB), (5, 32 * MiB)),
)
# After three fits some of the first points, and from any row but STRAIGHT_LINE's after four some
# of the second, have not yet found their protocol.
STUBBORN = (
    ((4 * us, 0.8 * us, 448e9), ((4, 64 * MiB), (8, 64 * KiB), (8, 8 * MiB))),
    ((4 * us, 0.3 * us, 700e9), ((8, 128 * MiB), (16, 128 * MiB), (4, 16 * KiB))),
)
UNFIT_POINTS = (
    [(2, 1024, 7e-6), (8, 4096, 16e-6)],  # two
    [(2, 1024, 7e-6), (2, 4096, 8e-6), (2, GiB, 3e-3)],  # one rank count
    [(2, 1024, 7e-6), (4, 1024, 8e-6), (8, 1024, 9e-6)],  # one payload
    [(1, 1024, 7e-6), (8, 1024, 16e-6), (8, GiB, 3e-3)],  # of one rank
    [(2, 1024, 0.0), (8, 1024, 16e-6), (8, GiB, 3e-3)],  # no time
    [(2, 1024, 7e-6), (8, 1024, 16e-6), (8, GiB, 1e-9)],  # the largest is the fastest
)


# --- The oracles ---------------------------------------------------------------------------------


def walk(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, rounds):
    """A ring, hop by hop: in each hop every rank passes on one of its num_ranks chunks."""
    if num_ranks == 1:
        return 0.0
    hops = rounds * (num_ranks - 1)
    return c_s + sum(a_s + payload_bytes / num_ranks / busbw_bytes_per_s for _ in range(hops))


def fastest(num_ranks, payload, c_s, a_s, rate, protocols):
    """A library that switches protocols, each walked hop by hop."""
    return min(
        walk(num_ranks, payload + fill, factor * c_s, factor * a_s, part * rate, rounds=2)
        for factor, part, fill in protocols
    )


def best_fit(points):
    """c, a, busbw with the least squared relative errors on a straight line: normal equations,
    solved in exact fractions by Cramer's rule."""
    rows = []
    for ranks, size, seconds_s in points:
        terms = (1, 2 * (ranks - 1), Fraction(2 * (ranks - 1), ranks) * size)
        rows.append([term / Fraction(seconds_s) for term in terms])
    normal = [[sum(r[i] * r[j] for r in rows) for j in range(3)] for i in range(3)]
    right = [sum(r[i] for r in rows) for i in range(3)]

    def determinant(m):
        (a, b, c), (d, e, f), (g, h, i) = m
        return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)

    def with_column(k):
        return [[right[i] if j == k else normal[i][j] for j in range(3)] for i in range(3)]

    c_s, a_s, s_per_byte = (determinant(with_column(k)) / determinant(normal) for k in range(3))
    return float(c_s), float(a_s), float(1 / s_per_byte)


def rings():
    """(c, a, busbw): three that look like machines, and three drawn at random."""
    chance = random.Random(3)
    drawn = [
        (chance.uniform(0, 9) * us, chance.uniform(0, 40) * us, 10 ** chance.uniform(9, 12))
        for _ in range(3)
    ]
    return [(5 * us, 0.7 * us, 3e9), (0.0, 40 * us, 1.25e9), (9 * us, 0.0, 2e11), *drawn]


def some_ranks():
    return (1, 2, 3, 8, random.Random(12).randint(4, 64))


def payloads():
    """Bytes: none, a decode step's, and three drawn ones, small, large and tiny."""
    chance = random.Random(13)
    some = chance.randint(1, 10**6), chance.randint(10**7, 10**9), chance.randint(1, 999)
    return (0, 8 * KiB, *some)


def machine():
    """(weight_bytes, memory_bytes_per_s, flops_per_s), 300 flops for each byte it can read."""
    chance = random.Random(14)
    memory = chance.uniform(1e11, 1e13)
    return chance.uniform(1e9, 1e11), memory, 300 * memory


# --- The measurements ----------------------------------------------------------------------------


def nccl_seconds(gpu):
    """{(ranks, bytes): seconds} of NCCL all-reduces within one node."""
    return {
        (row["setting"]["gpus"], row["setting"]["bytes"]): row["value"] * us
        for row in ROWS
        if row["kind"] == "nccl_all_reduce" and gpu in row["setting"]["gpu"]
    }


def measured_s(kind, gpu, gpus, size, mode=None):
    """The seconds of the one row for this GPU, rank count and payload."""
    found = [
        row["value"] * us
        for row in ROWS
        if row["kind"] == kind
        and gpu in row["setting"]["gpu"]
        and (row["setting"]["gpus"], row["setting"]["bytes"]) == (gpus, size)
        and row["setting"].get("mode") == mode
    ]
    assert len(found) == 1, f"{len(found)} rows for {kind} {gpu} {gpus} ranks {size} bytes"
    return found[0]


# --- How a result is compared --------------------------------------------------------------------


def close(actual, expected, idea, relative=1e-12, at_least=0.0, part=""):
    atol = max(relative * abs(float(expected)), at_least)
    expect_close(actual, float(expected), atol=atol, idea=idea, part=part)


def close_tuple(result, expected, idea, relative=1e-12, at_least=0.0):
    """A tuple of the named values, in this order."""
    a_pair(result, tuple(expected))
    for index, value in enumerate(expected.values()):
        close(result[index], value, idea, relative, at_least, part=f"[{index}]")


def a_pair(result, names):
    shape = f"a tuple ({', '.join(names)})"
    assert isinstance(result, tuple) and len(result) == len(names), (
        f"returned {result!r}, expected {shape}"
    )


def three(result):
    ok = hasattr(result, "__len__") and not isinstance(result, (str, dict)) and len(result) == 3
    assert ok, f"equation returned {result!r}, expected [f, g, h]"


def finite(*values):
    for value in values:
        assert math.isfinite(value), f"returned {value}; every value should be finite"
