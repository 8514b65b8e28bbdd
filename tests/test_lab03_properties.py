"""Properties of lab 03's functions that hold for all inputs, on the solution."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.loading import choose_lab, find_labs, load_module

LAB = choose_lab("lab-03", find_labs())
bill = load_module(LAB.file("solution"))

# Few examples each: the functions are a line or two, and the whole file should take half a second.
fast = settings(max_examples=40, deadline=None, database=None, derandomize=True)

ranks = st.integers(1, 64)
payloads = st.integers(0, 2**36)
seconds = st.floats(0, 1e-3)
latencies = st.floats(1e-9, 1e-3)
rates = st.floats(1e6, 1e13)
RINGS = ("ring_all_reduce_s", "reduce_scatter_s", "all_gather_s", "all_to_all_s")
DIRECT = ("one_shot_all_reduce_s", "two_shot_all_reduce_s")
# Sums of a few float64 terms in another order.
close = pytest.approx


def about(value):
    return close(value, rel=1e-9, abs=1e-18)


@fast
@given(ranks, payloads, payloads, seconds, seconds, seconds, rates)
def test_more_bytes_or_latency_or_less_bandwidth_is_never_faster(p, size, more, c, a, extra, rate):
    for name in RINGS:
        time_s = getattr(bill, name)
        base = time_s(p, size, c, a, rate)
        assert base <= time_s(p, size + more, c, a, rate)
        assert base <= time_s(p, size, c + extra, a, rate)
        assert base <= time_s(p, size, c, a + extra, rate)
        assert base <= time_s(p, size, c, a, rate / 2)
    for name in DIRECT:
        time_s = getattr(bill, name)
        assert time_s(p, size, c, rate) <= time_s(p, size + more, c + extra, rate)
    constants = (c, a, rate)
    assert bill.predict_all_reduce_s(p, size, *constants) <= bill.predict_all_reduce_s(
        p, size + more, *constants
    )


def test_a_whole_number_may_come_as_a_float():
    assert bill.ring_all_reduce_s(4.0, 8, 0.0, 1.0, 1.0) == bill.ring_all_reduce_s(
        4, 8, 0.0, 1.0, 1.0
    )


@fast
@given(payloads, seconds, seconds, rates, rates)
def test_one_rank_costs_nothing(size, c, a, rate, network):
    assert all(getattr(bill, name)(1, size, c, a, rate) == 0 for name in RINGS)
    assert all(getattr(bill, name)(1, size, c, rate) == 0 for name in DIRECT)
    assert bill.fastest_all_reduce(1, size, c, c, a, rate)[1] == 0
    assert bill.hierarchical_all_reduce_s(1, 1, size, c, a, rate, a, network) == 0
    assert bill.predict_all_reduce_s(1, size, c, a, rate) == 0
    assert bill.crossover_bytes(1, c, a, rate) == bill.latency_share(1, size, c, a, rate) == 0
    assert all(bill.all_reduce_range_s(link, 1, size) == (0, 0) for link in bill.LINKS)


@fast
@given(st.integers(2, 64), payloads, seconds, seconds, rates)
def test_all_reduce_is_reduce_scatter_and_all_gather_in_one_launch(p, size, c, a, rate):
    halves = bill.reduce_scatter_s(p, size, c, a, rate) + bill.all_gather_s(p, size, c, a, rate)
    assert bill.ring_all_reduce_s(p, size, c, a, rate) + c == about(halves)


@fast
@given(st.integers(2, 16), payloads, seconds, seconds, rates, rates)
def test_a_hierarchy_of_one_level_is_the_ring(p, size, c, a, rate, other):
    plain = about(bill.ring_all_reduce_s(p, size, c, a, rate))
    assert bill.hierarchical_all_reduce_s(1, p, size, c, a, rate, 1.0, other) == plain
    assert bill.hierarchical_all_reduce_s(p, 1, size, c, 1.0, other, a, rate) == plain


@fast
@given(ranks, payloads, seconds, seconds, seconds, rates)
def test_the_dispatch_takes_the_minimum(p, size, kernel, c, a, rate):
    name, time_s = bill.fastest_all_reduce(p, size, kernel, c, a, rate)
    times = {
        "one_shot": bill.one_shot_all_reduce_s(p, size, kernel, rate),
        "two_shot": bill.two_shot_all_reduce_s(p, size, kernel, rate),
        "ring": bill.ring_all_reduce_s(p, size, c, a, rate),
    }
    assert time_s == times[name] == min(times.values())
    if p == 2:
        assert times["one_shot"] <= times["two_shot"]


@fast
@given(st.integers(2, 64), payloads, latencies, seconds, rates)
def test_the_latency_share_follows_from_the_crossover(p, size, c, a, rate):
    crossover = bill.crossover_bytes(p, c, a, rate)
    assert bill.latency_share(p, size, c, a, rate) == about(crossover / (crossover + size))


@fast
@given(st.integers(2, 64), st.integers(1, 2**36), rates)
def test_bus_bandwidth_undoes_the_bill_without_latency(p, size, rate):
    for operation, name in (
        ("all_reduce", "ring_all_reduce_s"),
        ("reduce_scatter", "reduce_scatter_s"),
        ("all_gather", "all_gather_s"),
        ("all_to_all", "all_to_all_s"),
    ):
        time_s = getattr(bill, name)(p, size, 0.0, 0.0, rate)
        assert bill.bus_bandwidth(operation, p, size, time_s) == about(rate)


@fast
@given(st.floats(1e6, 1e13), ranks, rates, st.integers(1, 1000), seconds)
def test_both_sides_of_the_rule_agree_with_the_step_times(weights, p, rate, count, message):
    paid, saved = bill.tensor_parallel_sides(weights, rate, p, count, message)
    alone = bill.decode_step_s(weights, 1, rate)
    together = bill.decode_step_s(weights, p, rate) + count * message
    assert together - alone == close(paid - saved, rel=1e-9, abs=1e-9 * (alone + together))
    share = bill.communication_share(count, message, bill.decode_step_s(weights, p, rate))
    assert 0 <= share <= 1


@fast
@given(st.floats(1e-6, 1e-4), st.floats(1e-7, 1e-4), st.floats(1e9, 1e12), st.integers(2, 8))
def test_calibration_returns_the_constants_that_made_the_points(c, a, rate, p):
    for protocols in (bill.STRAIGHT_LINE, bill.NCCL_PROTOCOLS):
        # Payloads far from the switch: a few bytes are latency, 64 GiB are bandwidth.
        points = [
            (ranks, size, bill.predict_all_reduce_s(ranks, size, c, a, rate, protocols))
            for ranks, size in ((2, 64), (8, 64), (p, 2**36))
        ]
        assert bill.calibrate(points, protocols) == close((c, a, rate), rel=1e-3)


@fast
@given(
    st.lists(
        st.tuples(st.integers(2, 64), st.integers(1, 2**30), st.floats(1e-6, 1.0)),
        min_size=3,
        max_size=6,
    )
)
def test_calibration_is_never_negative_whatever_the_noise(points):
    try:
        c, a, rate = bill.calibrate(points)
    except ValueError as error:
        assert "points" in str(error)
    else:
        assert c >= 0 and a >= 0 and rate > 0 and math.isfinite(rate)


@fast
@given(st.dictionaries(st.integers(1, 64), rates, min_size=1, max_size=5), ranks)
def test_a_bandwidth_between_measured_ones_stays_between_them(measured, p):
    found = bill.busbw_at(p, measured)
    assert min(measured.values()) <= found * (1 + 1e-12)
    assert found <= max(measured.values()) * (1 + 1e-12)
    assert all(bill.busbw_at(known, measured) == about(measured[known]) for known in measured)


@fast
@given(st.integers(1, 256), ranks, st.integers(1, 4096), st.sampled_from([1, 2, 4]))
def test_prefill_sends_as_many_messages_as_decode(layers, tokens, hidden, width):
    count, payload = bill.step_messages(layers, tokens, hidden, width)
    assert (count, payload) == (
        bill.step_messages(layers, 1, hidden, width)[0],
        tokens * bill.step_messages(layers, 1, hidden, width)[1],
    )
