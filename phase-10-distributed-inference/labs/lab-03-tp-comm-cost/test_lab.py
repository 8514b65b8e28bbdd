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

from labkit.expect import Unexpected, expect_close, expect_equal, expect_error, looking_at

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
    result = lab.step_messages(32, 1, 4096, 2)
    in_order(result, {"num_messages": 64, "payload_bytes": 8192})
    expect_equal(result, (64, 8192), idea=idea)
    for tokens, size in ((2**18, 2 * GiB), (2**20, 8 * GiB)):
        expect_equal(lab.step_messages(32, tokens, 4096, 2), (64, size), idea=idea)
    expect_equal(lab.step_messages(1, 1, 1, 1), (2, 1), idea=idea)
    chance = random.Random(1)
    for width in (1, 2, 4, 8):
        layers, tokens, hidden = (chance.randint(2, most) for most in (999, 999, 9999))
        one_layer = [(tokens, hidden)] * 2  # the shapes of what is summed: attention, MLP
        payload = sum(width for _ in range(tokens)) * one_layer[0][1]
        expected = (sum(len(one_layer) for _ in range(layers)), payload)
        expect_equal(lab.step_messages(layers, tokens, hidden, width), expected, idea=idea)


@pytest.mark.points(8)
def test_ring_all_reduce_s__walks_the_ring(lab):
    """A ring pays c once, p-1 hops there, p-1 hops back, and a chunk per hop."""
    for payload, num_ranks, ring in ring_cases():
        hops = f"{counted(num_ranks - 1, 'hop')} to reduce and {num_ranks - 1} to gather"
        idea = f"nothing is sent here: c once, and a in each of {hops}"
        if payload:  # without bytes it was right
            idea = f"in each of {hops} a rank sends a chunk of bytes/{num_ranks}"
        result = lab.ring_all_reduce_s(num_ranks, payload, *ring)
        close(result, walk(num_ranks, payload, *ring, rounds=2), idea)


@pytest.mark.points(4)
def test_decode_step_s__shards_the_weights(lab):
    """Each rank reads only its share of the weights in a step."""
    chance = random.Random(2)
    drawn = 16e9, 0, chance.uniform(1e9, 1e12)
    for weights, num_ranks, rate in product(
        drawn, (*some_ranks(), MANY_RANKS), (1e12, chance.uniform(1e11, 1e13))
    ):
        expected = Fraction(weights) / num_ranks / Fraction(rate)
        result = lab.decode_step_s(weights, num_ranks, rate)
        close(result, expected, "p ranks read W/p bytes each, at the same time", units=False)


@pytest.mark.points(4)
def test_communication_share__divides_by_the_whole_step(lab):
    """The share is of the step with its messages, so it stays below 1."""
    chance = random.Random(3)
    message, step = chance.uniform(1, 99) * 1e-12, chance.uniform(1, 99) * 1e-3
    for count, message_s, step_s in product(
        (1, 64, chance.randint(2, 300), chance.randint(10**6, 10**7)),
        (7 * us, message, 0.0),
        (640 * us, step, 0.0),
    ):
        whole = count * Fraction(message_s) + Fraction(step_s)
        expected = 1 - Fraction(step_s) / whole if whole else 0
        idea = "of a step with its messages in it, the part that is messages"
        idea = idea if whole else "messages and step take 0 s here: the share is 0.0"
        with looking_at(idea):
            result = lab.communication_share(count, message_s, step_s)
        # a share is near 1 at most, so that 1 - the step's share may have its rounding
        close(result, expected, idea, at_least=1e-14, units=False)


@pytest.mark.points(4)
@pytest.mark.waits_for(RING_CHECK, STEP_CHECK, SHARE_CHECK)
def test_communication_share__of_published_latencies(lab):
    """8B on two A100s loses >40% on 10 GbE, <10% by a kernel on NVLink; on eight H100s >40%."""

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
    one_shot_s = slower * measured_s("custom_all_reduce", "A100", 2, 8 * KiB, "CUDA graph")
    lost = share(2, one_shot_s, A100_BYTES_PER_S)
    assert 0 < lost < 0.10, f"8B, A100, TP=2, one-shot on NVLink loses {lost:.0%}; want under 10%"
    nccl_s = slower * measured_s("nccl_all_reduce", "H100", 8, 8 * KiB)
    lost = share(8, nccl_s, H100_BYTES_PER_S)
    assert 0.40 < lost < 1, (
        f"8B, H100, TP=8, NCCL on NVLink loses {lost:.0%}; it must be above 40%: the step is "
        "sharded too, so the bill grows while the step shrinks."
    )


@pytest.mark.points(4)
def test_crossover_bytes__splits_the_time_in_half(lab):
    """At the crossover payload the bytes cost as much as the latency."""
    free = 0.0, 0.0, rings()[0][2]  # no latency: the crossover is at 0 bytes
    slow = 0.0, 40 * us, 2e12  # many hops and a wide wire: it is above 1e11 bytes
    cases = [*product(some_ranks()[:-1], rings()), (8, free)]
    cases += product([MANY_RANKS], (rings()[0], slow))
    for num_ranks, ring in cases:
        latency_s = walk(num_ranks, 0, *ring, rounds=2)
        per_byte_s = walk(num_ranks, 1, 0, 0, ring[2], rounds=2)
        idea = "the payload at which c and the hops take as long as the bytes"
        close(lab.crossover_bytes(num_ranks, *ring), latency_s / per_byte_s, idea)
    close(lab.crossover_bytes(1, *rings()[0]), 0, "one rank never waits")


# --- Task 2 --------------------------------------------------------------------------------------


@pytest.mark.points(5)
def test_reduce_scatter_s__is_half_a_ring(lab):
    """Reduce-scatter and all-gather are half a trip."""
    for payload, num_ranks, ring in ring_cases():
        hops = counted(num_ranks - 1, "hop")
        idea = f"nothing is sent here: c once, and a in each of {hops}"
        if payload:
            idea = f"{hops} with bytes/{num_ranks} each; a rank keeps its own chunk"
        expected = walk(num_ranks, payload, *ring, rounds=1)
        for half in (lab.reduce_scatter_s, lab.all_gather_s):
            close(half(num_ranks, payload, *ring), expected, idea)


@pytest.mark.points(5)
def test_bus_bandwidth__is_what_nccl_tests_prints(lab):
    """Bus bandwidth is what a rank's link carried."""
    some_s = random.Random(6).uniform(1, 99) * us
    drawn = product((*some_ranks(), MANY_RANKS), payloads(), (0.7, some_s))
    for num_ranks, payload, seconds_s in drawn:
        for operation, rounds in ROUNDS.items():
            chunks = rounds * (num_ranks - 1) if rounds else num_ranks
            expected = Fraction(payload) / num_ranks * chunks / Fraction(seconds_s)
            part = "every byte once"
            if rounds:
                part = f"{counted(chunks, 'chunk')} of bytes/{num_ranks}"
            idea = f"in these seconds a rank's link carries, in {operation}, {part}"
            close(lab.bus_bandwidth(operation, num_ranks, payload, seconds_s), expected, idea)
    seconds_s = measured_s("nccl_all_reduce", "H100", 8, 512 * MiB)
    rate = lab.bus_bandwidth("all_reduce", 8, 512 * MiB, seconds_s)
    assert 444e9 < rate < 446e9, f"512 MiB over 8 H100 in {seconds_s} s is 445 GB/s, not {rate:.4g}"


# --- Task 3 --------------------------------------------------------------------------------------


@pytest.mark.points(3)
def test_one_shot_all_reduce_s__reads_every_peer(lab):
    """One shot: every rank reads all of its peers' buffers at once."""
    for payload, num_ranks, (kernel_s, _, rate) in ring_cases():
        peers = [payload / rate] * (num_ranks - 1)
        expected = kernel_s + math.fsum(peers) if peers else 0.0
        result = lab.one_shot_all_reduce_s(num_ranks, payload, kernel_s, rate)
        peers = counted(num_ranks - 1, "peer")
        idea = f"the whole buffer of each of {peers}" if payload else "one kernel, no hops"
        close(result, expected, idea)


@pytest.mark.points(3)
@pytest.mark.waits_for(RING_CHECK)
def test_two_shot_all_reduce_s__has_two_rounds(lab):
    """Two shots: two rounds between the ranks, and a ring's bytes."""
    for payload, num_ranks, (kernel_s, _, rate) in ring_cases():
        expected = walk(num_ranks, payload, 2 * kernel_s, 0.0, rate, rounds=2)
        result = lab.two_shot_all_reduce_s(num_ranks, payload, kernel_s, rate)
        idea = "the ring's bytes" if payload else "kernel_s for each of two rounds, no hops"
        close(result, expected, idea)


@pytest.mark.points(5)
@pytest.mark.waits_for(RING_CHECK, *SHOT_CHECKS)
def test_fastest_all_reduce__switches_with_the_payload(lab):
    """Up to {two} ranks two shots never win; eight switch with the payload."""
    rate = 448e9
    slow, quick = (5 * us, 5 * us, 0.8 * us, rate), (5 * us, 1 * us, 0.1 * us, rate)
    at_once = (0.0, *slow[1:])  # a kernel that takes no time to start
    even = (3 * 2**-20, 6 * 2**-20, 0.0, 2.0**36)  # few bits: a tie in whatever order they add
    fastest, tie = "the lowest of the three lines at this payload", "a tie: the docstring's order"
    for num_ranks, payload, constants, name, seconds_s in (
        (2, 1 * GiB, slow, "one_shot", 5 * us + GiB / rate),
        (8, 256 * KiB, slow, "one_shot", 5 * us + 7 * 256 * KiB / rate),
        (8, 512 * KiB, slow, "two_shot", 10 * us + 1.75 * 512 * KiB / rate),
        (8, 512 * KiB, quick, "ring", 2.4 * us + 1.75 * 512 * KiB / rate),
        (8, 8 * KiB, quick, "ring", 2.4 * us + 1.75 * 8 * KiB / rate),
        (8, 426_666, slow, "one_shot", 5 * us + 7 * 426_666 / rate),  # by 8e-12 s: no tie
        (8, 426_667, slow, "two_shot", 10 * us + 1.75 * 426_667 / rate),
        (4, 64 * KiB, slow, "one_shot", 5 * us + 3 * 64 * KiB / rate),
        (4, 4 * MiB, slow, "ring", 9.8 * us + 1.5 * 4 * MiB / rate),
        (1, 1 * GiB, slow, "one_shot", 0.0),  # a tie of all three
        (8, 1 * GiB, at_once, "two_shot", 1.75 * GiB / rate),
        (4, 128 * KiB, even, "one_shot", 9 * 2**-20),  # of all three
        (8, 1 * GiB, even, "two_shot", 6 * 2**-20 + 1.75 * 2**-6),  # of two-shot and the ring
    ):
        choice = lab.fastest_all_reduce(num_ranks, payload, *constants)
        in_order(choice, {"name": name, "seconds": seconds_s})
        idea = tie if constants is even or num_ranks == 1 else fastest
        expect_equal(choice[0], name, part="[0]", idea=idea)
        close(choice[1], seconds_s, idea, part="[1]")
    for num_ranks, payload, (c_s, a_s, busbw), kernel_s in product(
        (2, 3, 8, 97), payloads(), rings()[:4], (5 * us, 100 * us)
    ):
        seconds_s = {
            "one_shot": kernel_s + (num_ranks - 1) * payload / busbw,
            "two_shot": walk(num_ranks, payload, 2 * kernel_s, 0.0, busbw, rounds=2),
            "ring": walk(num_ranks, payload, c_s, a_s, busbw, rounds=2),
        }
        best = min(seconds_s.values())
        names = [name for name in seconds_s if math.isclose(seconds_s[name], best, rel_tol=1e-12)]
        choice = lab.fastest_all_reduce(num_ranks, payload, kernel_s, c_s, a_s, busbw)
        entries(choice, ("name", "seconds"))
        close(choice[1], best, fastest, part="[1]")
        assert choice[0] in names, (
            f"returned {choice!r} for {num_ranks} ranks and {payload} bytes; the fastest is {names}"
        )


@pytest.mark.points(5)
@pytest.mark.waits_for(RING_CHECK, SCATTER_CHECK)
def test_hierarchical_all_reduce_s__each_gpu_its_part(lab):
    """Across nodes each GPU reduces only its own part of the payload."""
    round_, *_, (c_s, *node), (_, *network) = rings()
    links = (c_s, *node, *network), (c_s, *network, *node)  # each hop once the slower one
    drawn = product(links, CLUSTERS, payloads())
    ethernet = (*round_, 40 * us, 1.25e9)
    for ring, (nodes, gpus), payload in [(ethernet, (2, 8), MiB), *drawn]:
        c_s, *node = ring[:3]
        network = ring[3:]
        inside = walk(gpus, payload, 0, *node, rounds=2)
        across = walk(nodes, payload / gpus, 0, *network, rounds=2)
        expected = c_s + inside + across if nodes * gpus > 1 else 0.0
        idea = f"one c, then inside, across, inside; across, each GPU sends bytes/{gpus}"
        if gpus == 1:
            idea = "one GPU per node: the plain ring across, with one c"
        if nodes == 1:
            idea = f"one node: the plain ring inside it, one c, exactly bytes/{gpus} per hop"
        result = lab.hierarchical_all_reduce_s(nodes, gpus, payload, c_s, *node, *network)
        close(result, expected, idea)
    # Measured on 4 x 8 B200: 22.2 ms. Stages in turn cost 25 ms; perfectly overlapped, 16.
    measured = 1.9375 * 4 * GiB / 374.66e9
    serial = lab.hierarchical_all_reduce_s(4, 8, 4 * GiB, 7 * us, 1 * us, 839e9, 5 * us, 50e9)
    assert measured < serial < 1.2 * measured, f"4 x 8 B200, 4 GiB: {serial:.4f} s"


# --- Task 4 --------------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.waits_for(RING_CHECK)
def test_predict_all_reduce_s__takes_the_fastest_protocol(lab):
    """A library takes the protocol that is fastest at this payload."""
    sizes = (0, 8 * KiB, 64 * KiB, 6 * MiB, 512 * MiB, 4 * GiB)
    for num_ranks, payload, ring in product((2, 8, 1), sizes, (*rings(), TRUTHS[1])):
        for protocols in (LINE, NCCL, NCCL[:2], NCCL[1:], NCCL[2:], MIDDLE, QUICK + MIDDLE + NCCL):
            expected = fastest(num_ranks, payload, *ring, protocols)
            with looking_at("the least of all rows' rings; there is one row at least"):
                result = lab.predict_all_reduce_s(num_ranks, payload, *ring, protocols)
            each = [fastest(num_ranks, payload, *ring, [row]) for row in protocols]
            factor, part, fill = protocols[each.index(expected)]
            idea = (
                f"here row {each.index(expected)} of protocols is the fastest: the ring of payload "
                f"+ {fill:g} bytes with {factor:g} x c, {factor:g} x a and {part:g} x busbw"
            )
            close(result, expected, "one rank sends nothing" if num_ranks == 1 else idea)
        result = lab.predict_all_reduce_s(num_ranks, payload, *ring)
        idea = "protocols are NCCL_PROTOCOLS unless they are given"
        close(result, fastest(num_ranks, payload, *ring, NCCL), idea)
    result = lab.predict_all_reduce_s(MANY_RANKS, MiB, *ring)
    close(result, fastest(MANY_RANKS, MiB, *ring, NCCL), "the least of all rows' rings")


@pytest.mark.points(5)
def test_equation__holds_for_every_c_a_and_busbw(lab):
    """A measured point is one linear equation in c, a and 1/busbw."""
    units = ((1.0, 0.0, 1e30), (0.0, 1.0, 1e30), (0.0, 0.0, 1e-3))
    ideas = dict(zip(units, ("c", "a", "1 / busbw"), strict=True))
    for num_ranks, payload, protocol in product(
        (2, 3, 8, MANY_RANKS), (0, 1000, 3e6), NCCL + MIDDLE + QUICK
    ):
        factor, part, fill = protocol
        for ring in (*units, *rings()):
            c_s, a_s, busbw = ring
            of = ideas.get(ring, "c, a and 1 / busbw")
            idea = f"what stands before {of} in that ring's seconds, over the measured seconds"
            seconds_s = walk(
                num_ranks, payload + fill, factor * c_s, factor * a_s, part * busbw, rounds=2
            )
            alone = units.index(ring) if ring in units else None
            for measured in (3 * us, 0.25, seconds_s)[: 3 if alone is None else 2]:
                found = lab.equation((num_ranks, payload, measured), protocol)
                entries(found, ("f", "g", "h"))
                if alone is None:
                    total = found[0] * c_s + found[1] * a_s + found[2] / busbw
                    of_all = f", f c + g a + h / busbw at {c_s:.3g}, {a_s:.3g}, {busbw:.3g}"
                    close(total, seconds_s / measured, idea, part=of_all)
                else:
                    expected = seconds_s * (1.0, 1.0, 1e-3)[alone] / measured
                    close(found[alone], expected, idea, part=f", {'fgh'[alone]}")


@pytest.mark.points(5)
@pytest.mark.waits_for(RING_CHECK, PREDICT_CHECK, EQUATION_CHECK)
def test_calibrate__returns_what_made_the_points(lab):
    """Three points give back c, a and busbw."""
    one_row = "the one row is every point's protocol: least_squares fits c, a and 1/busbw, in order"
    several = "fit, let each point take its fastest protocol, and fit again"
    slower = random.Random(8).uniform(0.5, 2)
    easy = [*product(TRUTHS, CHOSEN)]
    cases = [*product((LINE, MIDDLE, NCCL), [*easy, *STUBBORN])]
    cases += product((OTHERS, MIDDLE + NCCL[::-1]), easy)  # where the last of four is taken, too
    cases += product([LINE], product(FAR, CHOSEN))
    for protocols, (truth, chosen) in cases:
        truth = (slower * truth[0], slower * truth[1], truth[2] / slower)
        points = [(p, size, fastest(p, size, *truth, protocols)) for p, size in chosen]
        expected = dict(zip(("c_s", "a_s", "busbw_bytes_per_s"), truth, strict=True))
        idea = one_row if len(protocols) == 1 else several
        with looking_at(idea):
            rows = [] if protocols is NCCL else [protocols]
            found = lab.calibrate(points, *rows)
        entries(found, tuple(expected))
        if math.isclose(found[2] * truth[2], 1, rel_tol=1e-6):
            raise Unexpected("is 1 / busbw, as least_squares finds it: turn it round.", "[2]")
        # three unknowns that differ by a factor of 1e9 or more
        close_tuple(found, expected, idea, relative=1e-6, at_least=1e-12)


@pytest.mark.points(4)
@pytest.mark.waits_for(EQUATION_CHECK, "test_calibrate__returns_what_made_the_points")
def test_calibrate__weighs_every_point_the_same(lab):
    """Every point counts in the fit, the fast ones as much as the slow."""
    idea = "all points are given to least_squares, each divided by its own seconds"
    chance = random.Random(303)
    for count, truth in [*product((4, 5, 9), TRUTHS[:2]), (13, TRUTHS[0]), (40, TRUTHS[1])]:
        sizes = [KiB, KiB, 64 * MiB, 512 * MiB] + [4 * KiB, MiB, 16 * MiB] * 12
        points = []
        for size in sizes[:count]:
            ranks = chance.choice((2, 3, 4, 8, 960)) if points else 2
            noise = 1 + chance.uniform(-0.01, 0.01)
            points.append((ranks, size, noise * walk(ranks, size, *truth, rounds=2)))
        points[1] = (8, KiB, walk(8, KiB, *truth, rounds=2))
        points.append(points[-1])  # measured twice, and each counts
        expected = dict(zip(("c_s", "a_s", "busbw_bytes_per_s"), best_fit(points), strict=True))
        assert min(expected.values()) > 0  # so that no bound of least_squares is in the way
        close_tuple(lab.calibrate(points, LINE), expected, idea, relative=1e-6)
    idea = "least_squares over all points; what would be below 0 is 0, and the rest fits without it"
    for points in odd_points():
        expected = dict(zip(("c_s", "a_s", "busbw_bytes_per_s"), best_fit(points), strict=True))
        found = lab.calibrate(points, LINE)
        close_tuple(found, expected, idea, relative=1e-6, at_least=1e-12)


@pytest.mark.points(2)
@pytest.mark.waits_for(EQUATION_CHECK, "test_calibrate__returns_what_made_the_points")
def test_calibrate__refuses_points_that_fix_nothing(lab):
    """Points that cannot fix c, a and busbw are a ValueError."""
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
            for rows in ([], [LINE]):
                expect_error(ValueError, lab.calibrate, points, *rows, idea=idea)


@pytest.mark.points(6)
@pytest.mark.waits_for(
    RING_CHECK, PREDICT_CHECK, EQUATION_CHECK, "test_calibrate__returns_what_made_the_points"
)
def test_calibrate__predicts_what_was_not_measured(lab):
    """Three points predict sizes and ranks that were not measured."""
    for large in (HUGE, 16 * MiB):  # a point of 16 MiB shows whether its protocol was found
        errors = {"up to 64 KiB": [], "between": [], "above 4 MiB": []}
        for gpu in ("A100", "H100", "L40S"):
            seconds_s = nccl_seconds(gpu)
            tiny = [(ranks, KiB, seconds_s[ranks, KiB]) for ranks in (2, 8)]
            fits = {p: lab.calibrate([*tiny, (p, large, seconds_s[p, large])]) for p in (2, 8)}
            fits[4] = (*fits[2][:2], lab.busbw_at(4, {p: fit[2] for p, fit in fits.items()}))
            for (ranks, size), measured in seconds_s.items():
                if size in (KiB, large):
                    continue
                predicted = lab.predict_all_reduce_s(ranks, size, *fits[ranks])
                finite(predicted)
                where = "up to 64 KiB" if size <= 64 * KiB else "between"
                where = "above 4 MiB" if size > 4 * MiB else where
                errors[where].append(abs(predicted / measured - 1))
        for where, found in errors.items():
            assert median(found) <= 0.10, (
                f"payloads {where}, from 1 KiB and {large // MiB} MiB: median error "
                f"{median(found):.0%}, want 10%"
            )


# --- Task 5 --------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.waits_for(STEP_CHECK)
def test_step_s__has_two_roofs(lab):
    """A step reads the weights once, and multiplies once per token."""
    # flops per byte read: of GPUs, of a slow one that always multiplies, and one in between
    for ridge in (300, 150, 0.5, random.Random(15).randint(3, 40)):
        weights, memory, flops = machine(ridge) if ridge != 300 else (16e9, 1e12, 300e12)
        tokens_of_step = {1, 2, 7, 49, 64, int(ridge / 2) + 1, int(ridge) + 1, 10**6}
        steps = product((*some_ranks(), MANY_RANKS), sorted(tokens_of_step), (2, 1, 4, 0.5))
        for num_ranks, tokens, width in steps:
            reading = Fraction(weights) / num_ranks / Fraction(memory)
            arithmetic = Fraction(weights) / width * 2 * tokens / num_ranks / Fraction(flops)
            result = lab.step_s(weights, num_ranks, memory, tokens, flops, width)
            longer = "multiplying" if arithmetic > reading else "reading"
            idea = (
                f"a rank has {weights / num_ranks:.4g} bytes to read, once, which are "
                f"{weights / width / num_ranks:.4g} weights, 2 flops each per token; here "
                f"{longer} takes longer"
            )
            close(result, max(reading, arithmetic), idea, units=False)
    weights, memory, flops = machine()
    keywords = {}, {"tokens": 7 * 10**8}, {"flops_per_s": memory}
    for size, more in product((weights, 0), keywords):
        result = lab.step_s(size, 2, memory, **more)
        close(result, size / 2 / memory, "without flops_per_s, reading is the only roof")
    # Printed rates of an H100: 295 tokens still wait for memory, 296 multiply.
    roofs = [lab.step_s(16e9, 1, 3.35e12, tokens, 989e12) for tokens in (1, 295, 296)]
    finite(*roofs)
    assert roofs[0] == roofs[1] < roofs[2], f"1, 295 and 296 tokens take {roofs} s on an H100"


@pytest.mark.points(3)
def test_link_bytes_per_s__one_direction(lab):
    """A rank's link carries one direction, in bytes."""
    for link, rate in ONE_WAY.items():
        both = "NVLink" in link or "PCIe" in link
        idea = "what goes one way is half of both directions" if both else "8 bits are a byte"
        close(lab.link_bytes_per_s(link), rate, idea)


@pytest.mark.points(3)
@pytest.mark.waits_for(RING_CHECK)
def test_all_reduce_range_s__best_and_worst(lab):
    """A bill is an interval, since boxes differ."""
    ideas = {
        "best_s": "best: low c, low a, high busbw",
        "worst_s": "worst: high c and a, low busbw",
    }
    assert len(ENDS) == len(ONE_WAY) == 10
    for link, num_ranks, payload in product(ENDS, (*some_ranks(), MANY_RANKS), payloads()):
        best, worst = (walk(num_ranks, payload, *end, rounds=2) for end in ENDS[link])
        result = lab.all_reduce_range_s(link, num_ranks, payload)
        close_tuple(result, {"best_s": best, "worst_s": worst}, ideas)


@pytest.mark.points(5)
@pytest.mark.waits_for(STEP_CHECK, "test_step_s__has_two_roofs")
def test_tensor_parallel_sides__paid_and_saved(lab):
    """TP pays when its messages cost less than the step it spares."""
    idea = {
        "paid_s": "paid is what all messages take",
        "saved_s": "saved is what a step of the same tokens takes longer on one rank",
    }
    weights, memory, flops = machine()
    chance = random.Random(5)
    for num_ranks, count, message_s, tokens in product(
        some_ranks(), (chance.randint(2, 200), 1), (0.0, chance.uniform(1, 99) * us), (1, 4096)
    ):
        # 2-byte weights: a flop per byte and token
        alone = max(weights / memory, weights * tokens / flops)
        expected = {"paid_s": count * message_s, "saved_s": alone - alone / num_ranks}
        work = (weights, memory, num_ranks, count, message_s)
        close_tuple(lab.tensor_parallel_sides(*work, tokens, flops), expected, idea)
        for more in ({}, {"tokens": 3**19}, {"flops_per_s": memory}) if tokens == 1 else ():
            close_tuple(lab.tensor_parallel_sides(*work, **more), expected, idea)
    for size, ranks, tokens, width in product((weights, 0), (2, MANY_RANKS), (1, 1000), (1, 4)):
        alone = max(size / memory, size / width * 2 * tokens / flops)
        work = (size, memory, ranks, 64, 0.0, tokens, flops)
        expected = {"paid_s": 0.0, "saved_s": alone - alone / ranks}
        close_tuple(lab.tensor_parallel_sides(*work, element_bytes=width), expected, idea)


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
# (low c, low a, high busbw) and (high c, high a, low busbw) of each link of hardware.json.
ENDS = {
    link: tuple(
        (row["c_us"][low] * us, row["a_us"][low] * us, best(map(best, speeds)) * 1e9)
        for low, best in ((0, max), (-1, min))
    )
    for link, row in json.loads(Path(__file__).with_name("hardware.json").read_text())[
        "links"
    ].items()
    if "printed" in row
    for speeds in [row["busbw_gb_per_s"].values()]
}
CLUSTERS = ((1, 1), (1, 8), (5, 1), (2, 2), (4, 8), (2, 3), (2, 16), (3, 72), (520, 8))
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
MANY_RANKS = random.Random(16).randint(1025, 4096)
LINE = ((1.0, 1.0, 0.0),)
NCCL = ((1.0, 0.45, 0.0), (4.0, 1.0, 0.0), (1.0, 1.0, 10e6))
OTHERS = NCCL[2], NCCL[1]
MIDDLE = ((2.0, 0.8, 3e5),)
QUICK = ((0.5, 0.05, 1e4),)  # with less latency than the fitted one
TRUTHS = (
    (5 * us, 0.8 * us, 448e9),
    (8 * us, 1.2 * us, 700e9),  # the large points take the protocol with a pipeline to fill
    (0.0, 40 * us, 1.25e9),
    (12 * us, 0.0, 3e9),
)
FAR = (3000 * us, 2000 * us, 1e8), (2 * us, 0.3 * us, 3e13)  # slow TCP; a wire wider than any
# Three points, in another order with empty ones, five.
CHOSEN = (
    ((2, KiB), (8, KiB), (4, HUGE)),
    ((4, HUGE), (8, 0), (2, 0)),
    ((2, KiB), (8, KiB), (4, HUGE), (3, 64 * KiB), (5, 32 * MiB)),
)
# After three fits some of the first points, and from any row but STRAIGHT_LINE's after four some
# of the second, have not yet found their protocol. Of the others one point keeps its protocol, or
# all of them together choose the same ones as before, and still one fit is to come.
STUBBORN = (
    ((4 * us, 0.8 * us, 448e9), ((4, 64 * MiB), (8, 64 * KiB), (8, 8 * MiB))),
    ((4 * us, 0.3 * us, 700e9), ((8, 128 * MiB), (16, 128 * MiB), (4, 16 * KiB))),
    ((8 * us, 2 * us, 200e9), ((4, 16 * MiB), (3, MiB), (2, 64 * MiB))),
    ((6 * us, 0.3 * us, 448e9), ((16, HUGE), (8, HUGE), (2, 8 * MiB), (4, MiB))),
)
UNFIT_POINTS = (
    [(2, 1024, 7e-6), (8, 4096, 16e-6)],  # two
    [(2, 1024, 7e-6), (2, 4096, 8e-6), (2, GiB, 3e-3)],  # one rank count
    [(2, 1024, 7e-6), (4, 1024, 8e-6), (8, 1024, 9e-6)],  # one payload
    [(1, 1024, 7e-6), (8, 1024, 16e-6), (8, GiB, 3e-3)],  # of one rank
    [(2, 1024, 7e-6), (1, 4096, 5e-6), (8, 1024, 16e-6), (8, GiB, 3e-3)],  # one of one rank
    [(2, 1024, 0.0), (8, 1024, 16e-6), (8, GiB, 3e-3)],  # no time
    [(2, 1024, 7e-6), (8, 1024, 16e-6), (8, GiB, 1e-9)],  # the largest is the fastest
)


# --- The oracles ---------------------------------------------------------------------------------


def walk(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, rounds):
    """A ring, hop by hop: in each hop every rank passes on one of its num_ranks chunks."""
    if num_ranks == 1:
        return 0.0
    hops = rounds * (num_ranks - 1)
    return c_s + math.fsum([a_s + payload_bytes / num_ranks / busbw_bytes_per_s] * hops)


def fastest(num_ranks, payload, c_s, a_s, rate, protocols):
    """A library that switches protocols, each walked hop by hop."""
    return min(
        walk(num_ranks, payload + fill, factor * c_s, factor * a_s, part * rate, rounds=2)
        for factor, part, fill in protocols
    )


def odd_points():
    """Few points, an outlier among several, and times that pull a or c below zero."""
    few = [(2, KiB), (8, KiB), (4, HUGE)]
    several = [*few, (3, 64 * KiB), (8, MiB), (2, 16 * MiB)]
    for chosen, outlier in ((few, 1), (several, 3), (several, 0.5)):
        yield [
            (p, size, (outlier if size == MiB else 1) * walk(p, size, *TRUTHS[0], rounds=2))
            for p, size in chosen
        ]
    huge_s = walk(4, HUGE, *TRUTHS[0], rounds=2)
    yield [(2, KiB, 9 * us), (8, KiB, 7 * us), (4, HUGE, huge_s), (8, 64 * KiB, 8 * us)]
    yield [(2, KiB, 1 * us), (8, KiB, 20 * us), (4, HUGE, huge_s), (3, 64 * KiB, 4 * us)]


def best_fit(points):
    """c, a, busbw with the least squared relative errors on a straight line, none below zero: of
    the fits without any, c, or a, each solved in exact fractions, the nearest that is not below."""
    fits = []
    for left_out in ((), (0,), (1,), (0, 1)):
        found, error = fit_without(points, left_out)
        if min(found) >= 0:
            fits.append((error, found))
    c_s, a_s, s_per_byte = min(fits)[1]
    return float(c_s), float(a_s), float(1 / s_per_byte)


def fit_without(points, left_out):
    """([c, a, 1/busbw], squared error) of the normal equations, by Cramer's rule."""
    rows = []
    for ranks, size, seconds_s in points:
        terms = (1, 2 * (ranks - 1), Fraction(2 * (ranks - 1), ranks) * size)
        # 80 binary digits behind the point: exact enough, and fast for many points
        rows.append([Fraction(int(term / Fraction(seconds_s) * 2**80), 2**80) for term in terms])
    for row in rows:
        for i in left_out:
            row[i] = Fraction(0)
    normal = [[sum(r[i] * r[j] for r in rows) for j in range(3)] for i in range(3)]
    right = [sum(r[i] for r in rows) for i in range(3)]
    for i in left_out:
        normal[i][i] = Fraction(1)  # 1 x = 0

    def determinant(m):
        (a, b, c), (d, e, f), (g, h, i) = m
        return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)

    def with_column(k):
        return [[right[i] if j == k else normal[i][j] for j in range(3)] for i in range(3)]

    found = [determinant(with_column(k)) / determinant(normal) for k in range(3)]
    error = sum((sum(f * x for f, x in zip(row, found, strict=True)) - 1) ** 2 for row in rows)
    return found, error


def rings():
    """(c, a, busbw): three that look like machines, and three drawn at random."""
    chance = random.Random(3)
    drawn = [
        (chance.uniform(0, 9) * us, chance.uniform(0, 40) * us, 10 ** chance.uniform(9, 12))
        for _ in range(3)
    ]
    return [(5 * us, 0.7 * us, 3e9), (0.0, 40 * us, 1.25e9), (9 * us, 0.0, 2e11), *drawn]


def some_ranks():
    """One comes last, so that a counterexample is no corner case where it need not be."""
    return (2, 3, 8, random.Random(12).randint(4, 64), 1)


def ring_cases():
    """(payload, num_ranks, ring): all combinations, and a ring of many ranks."""
    return [*product(payloads(), some_ranks(), rings()), (8 * KiB, MANY_RANKS, rings()[0])]


def payloads():
    """Bytes: none, a decode step's, and three drawn ones, small, large and tiny (not whole)."""
    chance = random.Random(13)
    some = chance.randint(1, 10**6), chance.randint(10**7, 10**9), chance.randint(1, 999) - 0.5
    return (0, 8 * KiB, *some)


def machine(ridge=300):
    """(weight_bytes, memory_bytes_per_s, flops_per_s), so many flops for each byte it can read."""
    chance = random.Random(14)
    memory = chance.uniform(1e11, 1e13)
    return chance.uniform(1e9, 1e11), memory, ridge * memory


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


def counted(number, what):
    """`1 hop`, `2 hops`."""
    return f"{number} {what}{'s' * (number != 1)}"


def close(actual, expected, idea, relative=1e-12, at_least=0.0, part="", units=True):
    atol = max(relative * abs(float(expected)), at_least)
    expect_close(actual, float(expected), atol=atol, idea=idea, part=part, units=units)


def close_tuple(result, expected, idea, relative=1e-12, at_least=0.0):
    """The named values, in this order; idea: for all, or a dict with one for each."""
    in_order(result, expected)
    for index, (name, value) in enumerate(expected.items()):
        why = idea[name] if isinstance(idea, dict) else idea
        close(result[index], value, why, relative, at_least, part=f"[{index}]")


def in_order(result, expected):
    """So many named values, and two of them not in the other order."""
    entries(result, tuple(expected))
    turned = [*expected.values()][::-1]
    if len(turned) == 2 and turned[0] != turned[1] and list(result) == pytest.approx(turned):
        raise Unexpected(f"returned the two in the other order; expected ({', '.join(expected)}).")


def entries(result, names):
    """So many values in a row, be it a tuple or a list."""
    row = hasattr(result, "__len__") and not isinstance(result, (str, dict, set))
    if not row or len(result) != len(names):
        raise Unexpected(f"returned {result!r:.80}, expected ({', '.join(names)}).")


def finite(*values):
    for value in values:
        assert math.isfinite(value), f"returned {value}; every value should be finite"
