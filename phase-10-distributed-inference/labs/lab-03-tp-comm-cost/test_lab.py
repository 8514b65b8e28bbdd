"""Lab 03: the communication bill of tensor parallelism. The oracles stand here.

The oracle of a ring walks it hop by hop; the learner's formula must agree. Measurements come from
measurements.jsonl, whose rows name their sources. Tolerances are relative 1e-12: every expected
value is a handful of float64 operations, whatever their order.
"""

import json
import math
import re
import reprlib
from pathlib import Path
from statistics import median

import pytest

from labkit.expect import describe_call, expect_close, expect_equal, expect_error

KiB, MiB, GiB, us = 1024, 1024**2, 1024**3, 1e-6

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("measurements.jsonl").read_text().splitlines()
]

# Llama-3.1-8B: 8.03e9 parameters in BF16, 32 layers, hidden size 4096.
WEIGHTS_8B, MESSAGES_8B = 16.06e9, 64
# A decode step achieves about 0.8 of the printed memory bandwidth.
A100_BYTES_PER_S, H100_BYTES_PER_S = 0.8 * 2.039e12, 0.8 * 3.35e12
# 10 GbE over TCP: c from NCCL's tuner; a hop is nccl-tests issue 82's broadcast of 38 to 46 us,
# less c; 10 Gb/s = 1.25e9 B/s.
ETHERNET = {"c_s": 6.6 * us, "a_s": 35 * us, "busbw_bytes_per_s": 1.25e9}
RINGS = [
    {"c_s": 5 * us, "a_s": 0.7 * us, "busbw_bytes_per_s": 3e9},
    {"c_s": 0.0, "a_s": 40 * us, "busbw_bytes_per_s": 1.25e9},
    {"c_s": 9 * us, "a_s": 0.0, "busbw_bytes_per_s": 2e11},
]
PAYLOADS = [0, 8 * KiB, 3_000_000, 512 * MiB]


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


# What a message may call a unit. `s` and `bytes` must be words of their own; a count's unit is what
# it counts.
UNITS = {
    "s": r"\bs\b|\bseconds?\b",
    "bytes": r"\bbytes?\b|\bB\b",
    "bytes/s": r"\bbytes?/s\b|\bB/s\b|\bbytes? per s(econd)?\b",
    "whole number": r"\b(whole|integer|int|ranks|nodes|GPUs|layers|messages|tokens|elements"
    r"|experts)\b",
}


def expect_refusal(function, *, call, words, unit=None, idea=""):
    """A ValueError, in the learner's own wording, that holds each of the words and the unit."""
    messages = []

    def attempt():
        try:
            return function()
        except ValueError as error:
            messages.append(str(error))
            raise

    expect_error(ValueError, attempt, call=call, idea=idea)
    missing = [repr(word) for word in words if word not in messages[0]]
    if unit and not re.search(UNITS[unit], messages[0]):
        counted = "what it counts (or that it is a whole number)"
        missing.append(counted if unit == "whole number" else f"the unit {unit!r}")
    hint = f" Look again at: {idea}." if idea else ""
    assert not missing, (
        f"{call}: raised ValueError({messages[0]!r}), which does not name "
        f"{', '.join(missing)}.{hint}"
    )


def check(lab, name, arguments, expected, idea):
    """One call of a learner's function, equal to the oracle within float64 rounding."""
    call = describe_call(name, **arguments)
    actual = getattr(lab, name)(**arguments)
    expect_close(actual, float(expected), call=call, atol=1e-12 * abs(expected), idea=idea)


def expect_tuple(result, names, call):
    """A tuple with one entry for each name."""
    assert isinstance(result, tuple) and len(result) == len(names), (
        f"{call}: returned {reprlib.repr(result)}, expected a tuple ({', '.join(names)})"
    )


def walk(num_ranks, payload_bytes, c_s, a_s, busbw_bytes_per_s, rounds):
    """A ring, hop by hop: in each hop every rank passes on one of its num_ranks chunks."""
    if num_ranks == 1:
        return 0.0
    hops = rounds * (num_ranks - 1)
    return c_s + sum(a_s + payload_bytes / num_ranks / busbw_bytes_per_s for _ in range(hops))


@pytest.mark.points(5)
def test_step_messages(lab):
    """A step of an 8B model sends 64 messages: 8 KiB in decode."""
    cases = [
        ((32, 1, 4096, 2), (64, 8192)),
        ((32, 3, 4096, 2), (64, 24576)),
        ((32, 2048, 4096, 2), (64, 16 * MiB)),
        ((80, 1, 8192, 1), (160, 8192)),
    ]
    for (layers, tokens, hidden, width), expected in cases:
        arguments = {
            "num_layers": layers,
            "tokens": tokens,
            "hidden_size": hidden,
            "element_bytes": width,
        }
        expect_equal(
            lab.step_messages(**arguments),
            expected,
            call=describe_call("step_messages", **arguments),
            idea="attention and MLP end in one all-reduce each, of [tokens, hidden_size]",
        )


@pytest.mark.points(7)
def test_ring_all_reduce(lab):
    """A ring pays c once, 2(p-1) hops and 2(p-1)/p of the bytes."""
    for num_ranks in (1, 2, 3, 4, 8):
        for ring in RINGS:
            for payload in PAYLOADS:
                arguments = {"num_ranks": num_ranks, "payload_bytes": payload, **ring}
                expected = walk(**arguments, rounds=2)
                idea = "p-1 hops to reduce, p-1 to gather, one chunk of bytes/p in each; c once"
                check(lab, "ring_all_reduce_s", arguments, expected, idea)


@pytest.mark.points(7)
def test_share_of_a_sharded_step(lab):
    """Each rank reads only its share of the weights in a step."""
    for num_ranks, expected in ((1, 0.016), (2, 0.008), (8, 0.002)):
        arguments = {"weight_bytes": 16e9, "num_ranks": num_ranks, "memory_bytes_per_s": 1e12}
        check(lab, "decode_step_s", arguments, expected, "p ranks read W/p bytes each, together")
    for count, message, step, expected in (
        (64, 10 * us, 640 * us, 0.5),
        (3, 0.5, 4.5, 0.25),
        (5, 2.0, 0.0, 1.0),
        (7, 0.0, 1.0, 0.0),
        (7, 0.0, 0.0, 0.0),
    ):
        arguments = {"num_messages": count, "message_s": message, "step_s": step}
        check(lab, "communication_share", arguments, expected, "bill / (bill + step)")


@pytest.mark.points(6)
def test_crossover(lab):
    """At the crossover payload the bytes cost as much as the latency."""
    for num_ranks in (2, 3, 8):
        for ring in RINGS:
            latency_s = walk(num_ranks, 0, **ring, rounds=2)
            per_byte_s = walk(num_ranks, 1, 0, 0, ring["busbw_bytes_per_s"], rounds=2)
            arguments = {"num_ranks": num_ranks, **ring}
            idea = "solve c + 2(p-1) a = 2(p-1)/p * bytes / busbw for the bytes"
            check(lab, "crossover_bytes", arguments, latency_s / per_byte_s, idea)
    check(lab, "crossover_bytes", {"num_ranks": 1, **RINGS[0]}, 0.0, "one rank never waits")


@pytest.mark.points(10)
@pytest.mark.waits_for("test_ring_all_reduce", "test_share_of_a_sharded_step")
def test_within_a_node_never_across(lab):
    """8B TP=2 loses >40 % on 10 GbE, <10 % on NVLink; TP=8 >40 % again."""
    for num_ranks in (1, 2, 5):
        for ring in RINGS:
            for payload in PAYLOADS:
                arguments = {"num_ranks": num_ranks, "payload_bytes": payload, **ring}
                total_s = walk(**arguments, rounds=2)
                empty_s = walk(**{**arguments, "payload_bytes": 0}, rounds=2)
                expected = empty_s / total_s if total_s else 0.0
                idea = "the time of an empty message, over the time of this one"
                check(lab, "latency_share", arguments, expected, idea)

    def share(num_ranks, message_s, bytes_per_s):
        step_s = lab.decode_step_s(WEIGHTS_8B, num_ranks, bytes_per_s)
        return lab.communication_share(MESSAGES_8B, message_s, step_s)

    ethernet_s = lab.ring_all_reduce_s(2, 8 * KiB, **ETHERNET)
    lost = share(2, ethernet_s, A100_BYTES_PER_S)
    assert lost > 0.40, f"8B, A100, TP=2 over 10 GbE loses {lost:.0%}; it must be above 40 %"
    latency = lab.latency_share(2, 8 * KiB, **ETHERNET)
    assert latency > 0.90, f"{latency:.0%} of that is latency; it must be above 90 %"
    one_shot_s = measured_s("custom_all_reduce", "H100", 2, 8 * KiB, "CUDA graph")
    lost = share(2, one_shot_s, H100_BYTES_PER_S)
    assert lost < 0.10, f"8B, H100, TP=2, one-shot on NVLink loses {lost:.0%}; want under 10 %"
    nccl_s = measured_s("nccl_all_reduce", "H100", 8, 8 * KiB)
    lost = share(8, nccl_s, H100_BYTES_PER_S)
    assert lost > 0.40, (
        f"8B, H100, TP=8, NCCL on NVLink loses {lost:.0%}; it must be above 40 %: the step is "
        "sharded too, so the bill grows while the step shrinks."
    )


@pytest.mark.points(5)
@pytest.mark.waits_for("test_share_of_a_sharded_step")
def test_both_sides_of_the_rule(lab):
    """TP pays when its messages cost less than the weights it spares."""
    for weights, rate, num_ranks, count, message, expected in (
        (16e9, 1e12, 2, 64, 50 * us, (0.0032, 0.008)),
        (16e9, 1e12, 8, 64, 50 * us, (0.0032, 0.014)),
        (16e9, 1e12, 1, 64, 0.0, (0.0, 0.0)),
    ):
        arguments = {
            "weight_bytes": weights,
            "memory_bytes_per_s": rate,
            "num_ranks": num_ranks,
            "num_messages": count,
            "message_s": message,
        }
        call = describe_call("tensor_parallel_sides", **arguments)
        sides = lab.tensor_parallel_sides(**arguments)
        idea = "paid = messages x seconds; saved = step on one rank - step on p ranks"
        expect_tuple(sides, ("paid_s", "saved_s"), call)
        for side, want in zip(sides, expected, strict=True):
            expect_close(side, want, call=call, atol=1e-12, idea=idea)


@pytest.mark.points(5)
@pytest.mark.waits_for("test_ring_all_reduce")
def test_links(lab):
    """Links carry bytes in one direction, and vary between boxes."""
    expected = {
        "NVLink 3": 300e9,
        "NVLink 4": 450e9,
        "NVLink 5": 900e9,
        "PCIe 4": 31e9,
        "PCIe 5": 63e9,
        "10 GbE": 1.25e9,
        "100 GbE": 12.5e9,
        "400 GbE": 50e9,
        "InfiniBand NDR": 50e9,
    }
    for link, rate in expected.items():
        idea = "8 bits are a byte; what goes one way is half of both directions"
        check(lab, "link_bytes_per_s", {"link": link}, rate, idea)
    # (low c, low a, high busbw) and (high c, high a, low busbw) of two rows of LINKS.
    for link, num_ranks, payload, low, high in (
        ("10 GbE", 2, 8 * KiB, (6.6 * us, 30 * us, 1.25e9), (8.4 * us, 39 * us, 1.06e9)),
        ("PCIe 4", 8, MiB, (1.8 * us, 1.0 * us, 20e9), (6.6 * us, 1.4 * us, 1.4e9)),
    ):
        best, worst = (walk(num_ranks, payload, *end, rounds=2) for end in (low, high))
        arguments = {"link": link, "num_ranks": num_ranks, "payload_bytes": payload}
        call = describe_call("all_reduce_range_s", **arguments)
        result = lab.all_reduce_range_s(**arguments)
        expect_tuple(result, ("best_s", "worst_s"), call)
        for side, want in zip(result, (best, worst), strict=True):
            idea = "best: low c, low a, high busbw; worst: the other ends"
            expect_close(side, want, call=call, atol=1e-12 * want, idea=idea)
    for name, arguments in (
        ("link_bytes_per_s", {"link": "NVLink 9"}),
        ("all_reduce_range_s", {"link": "NVLink 9", "num_ranks": 2, "payload_bytes": 8}),
    ):
        expect_refusal(
            lambda name=name, arguments=arguments: getattr(lab, name)(**arguments),
            call=describe_call(name, **arguments),
            words=["link", "NVLink 9", "10 GbE"],
        )


@pytest.mark.points(6)
def test_half_trips(lab):
    """Reduce-scatter and all-gather are the halves of an all-reduce."""
    for name in ("reduce_scatter_s", "all_gather_s", "all_to_all_s"):
        for num_ranks in (1, 2, 3, 8):
            for ring in RINGS:
                for payload in PAYLOADS:
                    arguments = {"num_ranks": num_ranks, "payload_bytes": payload, **ring}
                    expected = walk(**arguments, rounds=1)
                    idea = "p-1 hops, each with bytes/p; a rank keeps its own chunk; c once"
                    check(lab, name, arguments, expected, idea)


@pytest.mark.points(5)
def test_bus_bandwidth(lab):
    """Bus bandwidth is what nccl-tests prints."""
    # (operation, ranks): what a rank's link carried, per byte of payload.
    factors = {
        ("all_reduce", 2): 1.0,
        ("all_reduce", 8): 1.75,
        ("reduce_scatter", 4): 0.75,
        ("all_gather", 8): 0.875,
        ("all_to_all", 5): 0.8,
        ("broadcast", 4): 1.0,
        ("reduce", 3): 1.0,
    }
    for (operation, num_ranks), factor in factors.items():
        arguments = {
            "operation": operation,
            "num_ranks": num_ranks,
            "payload_bytes": 6e9,
            "seconds_s": 0.7,
        }
        idea = "algbw = bytes / seconds; then the part of the bytes that a link carries"
        check(lab, "bus_bandwidth", arguments, 6e9 / 0.7 * factor, idea)
    seconds = measured_s("nccl_all_reduce", "H100", 8, 512 * MiB)
    rate = lab.bus_bandwidth("all_reduce", 8, 512 * MiB, seconds)
    assert 444e9 < rate < 446e9, f"512 MiB over 8 H100 in {seconds} s is 445 GB/s, not {rate:.4g}"
    expect_refusal(
        lambda: lab.bus_bandwidth("all_reduse", 2, 8, 1.0),
        call="bus_bandwidth(operation='all_reduse', ...)",
        words=["operation", "all_reduse"],
    )
    expect_refusal(
        lambda: lab.bus_bandwidth("all_reduce", 2, 8, 0.0),
        call="bus_bandwidth('all_reduce', 2, 8, seconds_s=0.0)",
        words=["seconds_s", "0"],
        unit="s",
    )


@pytest.mark.points(6)
@pytest.mark.waits_for("test_ring_all_reduce")
def test_one_shot_two_shot_and_min(lab):
    """Two ranks always take one shot; eight switch with the payload."""
    kernel_s, rate = 5 * us, 448e9
    for num_ranks in (1, 2, 4, 8):
        for payload in PAYLOADS:
            arguments = {
                "num_ranks": num_ranks,
                "payload_bytes": payload,
                "kernel_s": kernel_s,
                "busbw_bytes_per_s": rate,
            }
            peers = num_ranks - 1
            one = kernel_s + peers * payload / rate if peers else 0.0
            two = 2 * kernel_s + 2 * peers * payload / num_ranks / rate if peers else 0.0
            check(
                lab, "one_shot_all_reduce_s", arguments, one, "it reads every peer's whole buffer"
            )
            check(lab, "two_shot_all_reduce_s", arguments, two, "two rounds, the ring's bytes")
    slow = {"kernel_s": kernel_s, "c_s": 5 * us, "a_s": 0.8 * us, "busbw_bytes_per_s": rate}
    quick = {**slow, "c_s": 1 * us, "a_s": 0.1 * us}
    # powers of two: a tie however the terms are ordered
    even = {"kernel_s": 2**-20, "c_s": 2**-19, "a_s": 0.0, "busbw_bytes_per_s": 2.0**36}
    fastest, tie = (
        "the lowest of the three lines at this payload",
        "a tie: the order of the docstring",
    )
    for num_ranks, payload, constants, name, seconds in (
        (1, 1 * GiB, slow, "one_shot", 0.0),  # a tie of all three
        (8, 1 * GiB, even, "two_shot", 2**-19 + 1.75 * 2**-6),  # of two-shot and the ring
        (2, 1 * GiB, slow, "one_shot", 5 * us + GiB / rate),
        (8, 256 * KiB, slow, "one_shot", 5 * us + 7 * 256 * KiB / rate),
        (8, 512 * KiB, slow, "two_shot", 10 * us + 1.75 * 512 * KiB / rate),
        (8, 512 * KiB, quick, "ring", 2.4 * us + 1.75 * 512 * KiB / rate),
    ):
        arguments = {"num_ranks": num_ranks, "payload_bytes": payload, **constants}
        call = describe_call("fastest_all_reduce", **arguments)
        choice = lab.fastest_all_reduce(**arguments)
        expect_tuple(choice, ("name", "seconds"), call)
        idea = tie if constants is even else fastest
        expect_equal(choice[0], name, call=call, idea=idea)
        expect_close(choice[1], seconds, call=call, atol=1e-12 * seconds, idea=idea)


@pytest.mark.points(5)
@pytest.mark.waits_for("test_ring_all_reduce", "test_half_trips")
def test_hierarchical(lab):
    """Across nodes each GPU reduces only its own part of the payload."""
    for nodes, gpus in ((1, 1), (1, 8), (5, 1), (2, 2), (4, 8), (2, 3)):
        arguments = {
            "num_nodes": nodes,
            "gpus_per_node": gpus,
            "payload_bytes": 4 * GiB,
            "c_s": 7 * us,
            "node_a_s": 1 * us,
            "node_busbw_bytes_per_s": 839e9,
            "network_a_s": 5 * us,
            "network_busbw_bytes_per_s": 50e9,
        }
        inside = 2 * walk(gpus, 4 * GiB, 0, 1 * us, 839e9, rounds=1)
        across = walk(nodes, 4 * GiB / gpus, 0, 5 * us, 50e9, rounds=2)
        expected = 7 * us + inside + across if nodes * gpus > 1 else 0.0
        idea = "reduce-scatter inside, all-reduce bytes/g across, all-gather inside; one c"
        check(lab, "hierarchical_all_reduce_s", arguments, expected, idea)
    # Measured on 4 x 8 B200: 22.2 ms. Stages in turn cost 25 ms; perfectly overlapped, 16.
    measured = 1.9375 * 4 * GiB / 374.66e9
    serial = lab.hierarchical_all_reduce_s(4, 8, 4 * GiB, 7 * us, 1 * us, 839e9, 5 * us, 50e9)
    assert measured < serial < 1.2 * measured, f"4 x 8 B200, 4 GiB: {serial:.4f} s"


@pytest.mark.points(5)
def test_expert_parallel(lab):
    """Dispatch and combine move tokens x top_k x hidden, as DeepEP."""
    for arguments, expected in (
        ({"tokens": 128, "top_k": 8, "hidden_size": 7168}, (7569408, 14680064)),
        (
            {
                "tokens": 3,
                "top_k": 2,
                "hidden_size": 5,
                "dispatch_element_bytes": 2,
                "combine_element_bytes": 4,
            },
            (60, 120),
        ),
    ):
        call = describe_call("expert_parallel_bytes", **arguments)
        result = lab.expert_parallel_bytes(**arguments)
        expect_tuple(result, ("dispatch_bytes", "combine_bytes"), call)
        idea = "every token goes to top_k experts: FP8 and a scale out, BF16 back"
        for actual, want in zip(result, expected, strict=True):
            expect_close(float(actual), want, call=call, atol=1e-9, idea=idea)
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
        # Published in whole GB/s, cut rather than rounded: 39.8 stands there as 39, which is 2.1 %.
        assert abs(rate / want - 1) < 0.022, (
            f"{operation} over {ranks} ranks: {rate:.1f} GB/s, published {want} GB/s"
        )


LINE = ((1.0, 1.0, 0.0),)
NCCL = ((1.0, 0.45, 0.0), (4.0, 1.0, 0.0), (1.0, 1.0, 10e6))


def fastest(num_ranks, payload, c_s, a_s, rate, protocols):
    """The oracle of a library that switches protocols."""
    return min(
        walk(num_ranks, payload + fill, factor * c_s, factor * a_s, part * rate, rounds=2)
        for factor, part, fill in protocols
    )


@pytest.mark.points(8)
def test_predict_switches_protocols(lab):
    """A library takes the protocol that is fastest at this payload."""
    truth = (5 * us, 0.8 * us, 448e9)
    for num_ranks in (1, 2, 8):
        for payload in (8 * KiB, 64 * KiB, 6 * MiB, 512 * MiB):
            for protocols in (LINE, NCCL, NCCL[:2]):
                arguments = {
                    "num_ranks": num_ranks,
                    "payload_bytes": payload,
                    **dict(zip(("c_s", "a_s", "busbw_bytes_per_s"), truth, strict=True)),
                    "protocols": protocols,
                }
                each = [fastest(num_ranks, payload, *truth, [row]) for row in protocols]
                call = describe_call("protocol_times_s", **arguments)
                times = lab.protocol_times_s(**arguments)
                assert isinstance(times, list) and len(times) == len(each), (
                    f"{call}: returned {reprlib.repr(times)}, expected a list of {len(each)} times"
                )
                idea = "a ring of payload + fill, factor x c and a, part x busbw"
                for actual, want in zip(times, each, strict=True):
                    expect_close(actual, want, call=call, atol=1e-12 * want, idea=idea)
                idea = "the fastest of the protocols"
                check(lab, "predict_all_reduce_s", arguments, min(each), idea)
                if protocols is NCCL:
                    del arguments["protocols"]
                    check(lab, "predict_all_reduce_s", arguments, min(each), "the default")


@pytest.mark.points(7)
@pytest.mark.waits_for("test_predict_switches_protocols")
def test_calibrate(lab):
    """Three points give back c, a and busbw."""
    chosen = [(2, 1 * KiB), (8, 1 * KiB), (4, 512 * MiB), (3, 64 * KiB), (5, 32 * MiB)]
    for truth in (
        (5 * us, 0.8 * us, 448e9),
        (8 * us, 1.2 * us, 700e9),  # the large points take the protocol with a pipeline to fill
        (0.0, 40 * us, 1.25e9),
        (12 * us, 0.0, 3e9),
    ):
        for protocols in (LINE, NCCL):
            points = [(p, size, fastest(p, size, *truth, protocols)) for p, size in chosen]
            for count in (3, 5):
                constants = ", ".join(f"{value:g}" for value in truth)
                call = f"calibrate({count} points of c, a, busbw = {constants})"
                found = lab.calibrate(points[:count], protocols)
                names = ("c_s", "a_s", "busbw_bytes_per_s")
                expect_tuple(found, names, call)
                for actual, want, name in zip(found, truth, names, strict=True):
                    idea = (
                        f"{name}: each point is one linear equation in c, a and 1/busbw, with the "
                        "coefficients of protocol_times_s: factor, factor x 2(p-1), and "
                        "2(p-1)/p x (payload + fill) / part"
                    )
                    atol = max(1e-6 * want, 1e-12)  # three unknowns that differ by 1e9
                    expect_close(actual, want, call=call, atol=atol, idea=idea)
    # A point that is 1 % off moves the fit by about 1 %, however large the other points are.
    points = [(p, size, fastest(p, size, 5 * us, 1 * us, 4e11, LINE)) for p, size in chosen]
    points[0] = (*chosen[0], points[0][2] * 1.01)
    c_s, a_s, rate = lab.calibrate(points, LINE)
    assert abs(c_s / (5 * us) - 1) < 0.03, (
        f"calibrate: with one point 1 % off, c is {c_s:.3g} s, expected 5e-06 to 3 %. "
        "Look again at: weigh relative errors, not seconds."
    )


@pytest.mark.points(8)
@pytest.mark.waits_for("test_predict_switches_protocols", "test_calibrate")
def test_predict_measured(lab):
    """Three points predict sizes and ranks that were not measured."""
    for ranks, measured, expected in (
        (4, {2: 20e9, 8: 5e9}, 10e9),
        (4, {8: 5e9, 2: 20e9}, 10e9),  # measured in any order
        (16, {2: 20e9, 8: 5e9}, 5e9),
        (2, {4: 7e9}, 7e9),
        (3, {2: 20e9, 4: 5e9, 8: 4e9}, 20e9 * (5 / 20) ** math.log2(3 / 2)),
        (6, {2: 20e9, 4: 5e9, 8: 4e9}, 5e9 * (4 / 5) ** math.log2(6 / 4)),
    ):
        arguments = {"num_ranks": ranks, "measured": measured}
        idea = (
            "a line in log(ranks), log(busbw) between the two nearest, in whatever order they were "
            "measured; the nearest outside"
        )
        check(lab, "busbw_at", arguments, expected, idea)
    for measured, words, unit in (({}, ["measured"], None), ({2: 0.0}, ["0.0"], "bytes/s")):
        call = f"busbw_at(4, {measured})"
        expect_refusal(lambda m=measured: lab.busbw_at(4, m), call=call, words=words, unit=unit)

    errors = {"up to 64 KiB": [], "between": [], "above 4 MiB": []}
    for gpu in ("A100", "H100", "L40S"):

        def seconds(ranks, size, gpu=gpu):
            return measured_s("nccl_all_reduce", gpu, ranks, size)

        tiny = [(ranks, KiB, seconds(ranks, KiB)) for ranks in (2, 8)]
        fits = {p: lab.calibrate([*tiny, (p, 512 * MiB, seconds(p, 512 * MiB))]) for p in (2, 8)}
        rate = lab.busbw_at(4, {p: fit[2] for p, fit in fits.items()})
        fits[4] = (*fits[2][:2], rate)
        for ranks, size, where in (
            (2, 8 * KiB, "up to 64 KiB"),
            (4, 8 * KiB, "up to 64 KiB"),
            (8, 8 * KiB, "up to 64 KiB"),
            (2, 64 * KiB, "up to 64 KiB"),
            (8, 64 * KiB, "up to 64 KiB"),
            (2, MiB, "between"),
            (8, MiB, "between"),
            (2, 16 * MiB, "above 4 MiB"),
            (8, 16 * MiB, "above 4 MiB"),
        ):
            predicted = lab.predict_all_reduce_s(ranks, size, *fits[ranks])
            errors[where].append(abs(predicted / seconds(ranks, size) - 1))
    for where, limit in (("up to 64 KiB", 0.10), ("between", 0.30), ("above 4 MiB", 0.10)):
        found = median(errors[where])
        assert found <= limit, f"payloads {where}: median error {found:.0%}, want {limit:.0%}"


RING = {"num_ranks": 2, "payload_bytes": 8, "c_s": 0.0, "a_s": 0.0, "busbw_bytes_per_s": 1.0}
DIRECT = {"num_ranks": 2, "payload_bytes": 8, "kernel_s": 0.0, "busbw_bytes_per_s": 1.0}
CALLS = {
    "step_messages": {"num_layers": 2, "tokens": 1, "hidden_size": 8, "element_bytes": 2},
    "ring_all_reduce_s": RING,
    "decode_step_s": {"weight_bytes": 1.0, "num_ranks": 2, "memory_bytes_per_s": 1.0},
    "communication_share": {"num_messages": 2, "message_s": 1.0, "step_s": 1.0},
    "crossover_bytes": {key: RING[key] for key in RING if key != "payload_bytes"},
    "latency_share": RING,
    "all_reduce_range_s": {"link": "10 GbE", "num_ranks": 2, "payload_bytes": 8},
    "tensor_parallel_sides": {
        "weight_bytes": 1.0,
        "memory_bytes_per_s": 1.0,
        "num_ranks": 2,
        "num_messages": 2,
        "message_s": 1.0,
    },
    "reduce_scatter_s": RING,
    "all_gather_s": RING,
    "all_to_all_s": RING,
    "bus_bandwidth": {
        "operation": "reduce",
        "num_ranks": 2,
        "payload_bytes": 8,
        "seconds_s": 1.0,
    },
    "one_shot_all_reduce_s": DIRECT,
    "two_shot_all_reduce_s": DIRECT,
    "fastest_all_reduce": {**RING, "kernel_s": 0.0},
    "hierarchical_all_reduce_s": {
        "num_nodes": 2,
        "gpus_per_node": 2,
        "payload_bytes": 8,
        "c_s": 0.0,
        "node_a_s": 0.0,
        "node_busbw_bytes_per_s": 1.0,
        "network_a_s": 0.0,
        "network_busbw_bytes_per_s": 1.0,
    },
    "expert_parallel_bytes": {
        "tokens": 1,
        "top_k": 1,
        "hidden_size": 8,
        "dispatch_element_bytes": 1,
        "combine_element_bytes": 1,
    },
    "protocol_times_s": {**RING, "protocols": LINE},
    "predict_all_reduce_s": RING,
}
# Points that fix no c, a and busbw: what the message must name, and the unit.
UNFIT_POINTS = (
    ([(2, 1024, 7e-6), (8, 4096, 16e-6)], "points", None),  # two
    ([(2, 1024, 7e-6), (2, 4096, 8e-6), (2, GiB, 3e-3)], "rank", None),  # one rank count
    ([(2, 1024, 7e-6), (4, 1024, 8e-6), (8, 1024, 9e-6)], "payload", None),  # one payload
    ([(1, 1024, 7e-6), (8, 1024, 16e-6), (8, GiB, 3e-3)], "rank", None),  # of one rank
    ([(2, 1024, 0.0), (8, 1024, 16e-6), (8, GiB, 3e-3)], "0", "s"),
    ([(2, 1024, 7e-6), (8, 1024, 16e-6), (8, GiB, 1e-9)], "busbw", None),  # the largest is fastest
)
NOT_QUANTITIES = ("operation", "link", "protocols")


def bad_values(name):
    """Values of one argument that no quantity of its unit can have, and the unit."""
    if name.endswith("_bytes_per_s"):
        return (0, -1.0, float("inf"), "fast"), "bytes/s"
    if name.endswith("_s"):
        return (-1e-9, float("nan"), None), "s"
    if name.endswith("_bytes"):
        return (-1, float("nan"), "8 KiB"), "bytes"
    return (0, -3, 1.5, True), "whole number"


@pytest.mark.points(5)
@pytest.mark.parametrize("function", [*CALLS, "calibrate"])
def test_bad_input(lab, function):
    """Bad input is a ValueError naming argument, unit and value."""
    if function == "calibrate":
        for bad, word, unit in UNFIT_POINTS:
            call = f"calibrate({bad})"
            expect_refusal(lambda bad=bad: lab.calibrate(bad), call=call, words=[word], unit=unit)
        return
    arguments = CALLS[function]
    getattr(lab, function)(**arguments)
    for name in arguments:
        if name in NOT_QUANTITIES:
            continue
        values, unit = bad_values(name)
        for value in values:
            given = {**arguments, name: value}
            expect_refusal(
                lambda given=given: getattr(lab, function)(**given),
                call=describe_call(function, **given),
                words=[name, repr(value)],
                unit=unit,
                idea="call require(...) first",
            )
