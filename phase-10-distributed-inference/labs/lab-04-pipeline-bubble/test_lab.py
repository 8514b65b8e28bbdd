"""Lab 04: what a pipeline buys, what its bubble costs, and whose schedule is right.

Every number is exact, so every comparison is: times are Fractions, grids are lists. The oracles in
this file are written another way than the solution: paths and rank-by-rank counting, no formula.
"""

import json
import math
import re
import reprlib
from fractions import Fraction
from functools import cache
from graphlib import TopologicalSorter
from itertools import combinations, pairwise, product
from pathlib import Path

import pytest

from labkit.expect import expect_equal, expect_error

CAPTURES = Path(__file__).parent / "captures"
OP = re.compile(r"(\d+)([FBIW])(\d+)")  # stage, kind, microbatch

SWEEP = [*range(1, 9), 12, 16, 31, 32, 33, 63, 64, 127, 128]
SIZES = [(1, 1), (1, 5), (2, 1), (3, 4), (4, 8), (5, 2), (8, 3)]

pytestmark = pytest.mark.keeps_arguments


# --- the bubble, by algebra and by counting ---------------------------------------------------


@pytest.mark.points(6)
def test_bubble_is_an_exact_fraction(lab):
    """The bubble of p stages and m microbatches is (p-1)/(p+m-1)."""
    by_hand = {
        (1, 1): Fraction(0),
        (1, 9): Fraction(0),
        (2, 1): Fraction(1, 2),
        (3, 4): Fraction(1, 3),
        (4, 8): Fraction(3, 11),
        (8, 63): Fraction(1, 10),
        (16, 128): Fraction(15, 143),
    }
    for (p, m), expected in by_hand.items():
        call = f"bubble_fraction(p={p}, m={m})"
        idea = "in p + m - 1 ticks a stage works m and idles p - 1"
        expect_equal(lab.bubble_fraction(p, m), expected, call=call, idea=idea)


@pytest.mark.points(7)
def test_every_stage_runs_every_microbatch(lab):
    """Every stage runs every microbatch once, in order."""
    for p, m in SIZES:
        grid = lab.schedule_grid(p, m)
        call = f"schedule_grid(p={p}, m={m})"
        expect_grid(grid, p, call)
        for stage, row in enumerate(grid):
            ran = [cell for cell in row if cell is not None]
            what = f"{call}, the microbatches of stage {stage}, whose row is {reprlib.repr(row)}"
            expect_equal(ran, list(range(m)), call=what, idea="idle cells are None, all others run")


@pytest.mark.points(9)
@pytest.mark.waits_for("test_every_stage_runs_every_microbatch")
def test_no_microbatch_early_or_late(lab):
    """No microbatch runs before its input is there, or needlessly late."""
    for p, m in SIZES:
        grid = lab.schedule_grid(p, m)
        call = f"schedule_grid(p={p}, m={m})"
        expect_grid(grid, p, call)
        done = [dict() for _ in range(p)]  # per stage: microbatch -> tick in which it ran
        for stage, row in enumerate(grid):
            done[stage] = {cell: tick for tick, cell in enumerate(row) if cell is not None}
            assert sorted(done[stage]) == list(range(m)), (
                f"{call}: stage {stage} runs {sorted(done[stage])}, not each microbatch once"
            )
            for i, tick in done[stage].items():
                before = done[stage - 1][i] if stage else -1
                assert tick > before, (
                    f"{call}: stage {stage} runs microbatch {i} in tick {tick}, but stage "
                    f"{stage - 1} finishes it only with tick {before}"
                )
                earliest = max(before, done[stage][i - 1] if i else -1) + 1
                assert tick == earliest, (
                    f"{call}: stage {stage} runs microbatch {i} in tick {tick}; its input is there "
                    f"and the stage is free in tick {earliest}"
                )
        assert any(row[-1] is not None for row in grid), (
            f"{call}: nothing runs in the last of {len(grid[0])} ticks; the window ends with work"
        )


@pytest.mark.points(8)
@pytest.mark.waits_for(
    "test_bubble_is_an_exact_fraction",
    "test_every_stage_runs_every_microbatch",
    "test_no_microbatch_early_or_late",
)
def test_counting_equals_the_formula(lab):
    """Counted idle cells equal the formula, up to p = 16 and m = 128."""
    # microbatch 0 is work, though it is false in Python; rows idle differently
    uneven = [[0, 1, 2, 3], [None, None, None, 0]]
    idea = "count the cells that are None, in all rows"
    expect_equal(lab.grid_bubble(uneven), Fraction(3, 8), call=f"grid_bubble({uneven})", idea=idea)
    pairs = 0
    for p in range(1, 17):
        for m in SWEEP:
            grid = lab.schedule_grid(p, m)
            expect_grid(grid, p, f"schedule_grid(p={p}, m={m})")
            counted = window_bubble(grid)
            expect_equal(
                lab.bubble_fraction(p, m),
                counted,
                call=f"bubble_fraction(p={p}, m={m}) against the idle cells of your grid",
            )
            if m % 32 == 0:
                call = f"grid_bubble(schedule_grid({p}, {m}))"
                expect_equal(lab.grid_bubble(grid), counted, call=call)
            pairs += 1
    assert pairs == 272


@pytest.mark.points(3)
@pytest.mark.waits_for("test_bubble_is_an_exact_fraction")
def test_published_bubbles(lab):
    """Published 1F1B bubbles lie within 3 points above the formula."""
    facts = (Path(__file__).parent / "measurements.jsonl").read_text().splitlines()
    rates = [json.loads(line) for line in facts if '"bubble_rate"' in line]
    assert len(rates) == 3
    for rate in rates:
        p, m = rate["setting"]["p"], rate["setting"]["m"]
        ideal = float(lab.bubble_fraction(p, m))
        assert 0 < rate["value"] - ideal < 0.03, (
            f"bubble_fraction(p={p}, m={m}) is {ideal:.4f}; published is {rate['value']}. "
            "Hops and uneven stages add 1 to 3 points, no more"
        )


@pytest.mark.points(8)
def test_fewest_microbatches(lab):
    """8 stages idle 10 % with 63 microbatches; under 10 % takes 64."""
    tenth = Fraction(1, 10)
    by_hand = [
        ((8, 0.1), 63),  # 7/70 is exactly 10 %
        ((8, tenth), 63),
        ((8, tenth, True), 64),
        ((8, 0.1, True), 64),  # as a binary float 0.1 is a hair above a tenth: 63 would pass
        ((4, 0.3), 7),  # 3/10 is exactly 30 %; as a binary float 0.3 is a hair below it
        ((4, Fraction(29, 100)), 8),  # 7 gives 30 %, 8 gives 27.3 %
        ((8, 0.0015), 4660),  # 7/4667 is just under it, 7/4666 just over
        ((8, Fraction(1, 1500)), 10493),  # 7/10500 exactly
        ((2, Fraction(99, 100)), 1),
        ((1, tenth), 1),
        ((1, tenth, True), 1),
    ]
    for arguments, expected in by_hand:
        call = f"min_microbatches{arguments}".replace("Fraction(1, 10)", "1/10")
        idea = "solve (p-1)/(p+m-1) <= budget for m, with fractions"
        expect_equal(lab.min_microbatches(*arguments), expected, call=call, idea=idea)
    for p in (2, 3, 5, 8):
        for budget in (Fraction(3, 50), Fraction(2, 7), Fraction(1, 2), Fraction(5, 6)):
            for strict in (False, True):
                call = f"min_microbatches(p={p}, budget={budget}, strict={strict})"
                least = lab.min_microbatches(p, budget, strict)
                assert type(least) is int and 1 <= least <= 1000, f"{call}: returned {least!r}"
                kept = [
                    counted_bubble(p, m) < budget or (counted_bubble(p, m) == budget and not strict)
                    for m in (least - 1, least)
                    if m
                ]
                assert kept[-1], f"{call}: {least} microbatches do not keep the budget"
                assert True not in kept[:-1], f"{call}: returned {least}, but {least - 1} would do"


# --- what it buys -----------------------------------------------------------------------------


@pytest.mark.points(6)
def test_latency_gains_nothing(lab):
    """More stages make no request faster: they add p - 1 hops."""
    model_s, hop_s = Fraction(24, 1000), Fraction(3, 1000)
    for p in (1, 2, 3, 4, 8):
        call = f"latency_s(p={p}, model_s=24/1000, hop_s=3/1000)"
        idea = "a microbatch meets every layer, one stage after the other"
        actual = lab.latency_s(p, model_s, hop_s)
        expect_equal(actual, longest_path([model_s / p] * p, 1, hop_s), call=call, idea=idea)
        assert lab.latency_s(p, model_s, Fraction(0)) == model_s, (
            f"latency_s(p={p}) with hop_s=0 should be the time of one device: the same layers run"
        )


@pytest.mark.points(8)
def test_throughput_grows(lab):
    """Throughput nears that of p devices; decoding needs p or more."""
    model_s, hop_s = Fraction(24, 1000), Fraction(3, 1000)
    for p in (1, 2, 3, 4):
        for m in (1, 2, 5):
            call = f"throughput_per_s(p={p}, m={m}, model_s=24/1000, hop_s=3/1000)"
            expected = m / longest_path([model_s / p] * p, m, hop_s)
            idea = "m microbatches over the time until the last one leaves"
            actual = lab.throughput_per_s(p, m, model_s, hop_s)
            expect_equal(actual, expected, call=call, idea=idea)
            assert actual <= p / model_s, f"{call}: more than {p} devices can do"
        # the loop is full from p + p (p-1) hop / model on: with 4 stages 5.5 and 16, not 4
        for in_flight, hop_ms in product((1, 2, 3, 4, 5, 7, 17), (3, 24)):
            call = (
                f"decode_steps_per_s(p={p}, in_flight={in_flight}, model_s=24/1000, "
                f"hop_s={hop_ms}/1000)"
            )
            expected = decode_loop_rate(p, in_flight, model_s, Fraction(hop_ms, 1000))
            idea = "too few in flight: the loop waits for its own latency; enough: for the stages"
            actual = lab.decode_steps_per_s(p, in_flight, model_s, Fraction(hop_ms, 1000))
            expect_equal(actual, expected, call=call, idea=idea)
    limit = lab.throughput_per_s(4, 10**6, model_s, hop_s) * model_s
    assert Fraction(399, 100) < limit < 4, (
        f"throughput_per_s(p=4, m=1000000) is {float(limit):.3f} times one device, expected just "
        "under 4: the bubble vanishes, nothing more"
    )


@pytest.mark.points(8)
def test_one_slow_stage_sets_the_pace(lab):
    """One slow stage sets the pace, wherever it stands."""
    idea = "every microbatch passes the slow stage, and the next one waits for it"
    for k in (2, 3):
        for p, m in ((1, 4), (3, 2), (4, 5)):
            for slow in range(p):
                stage_s = [Fraction(k if stage == slow else 1) for stage in range(p)]
                call = f"makespan_s(stage_s={[int(s) for s in stage_s]}, m={m})"
                expected = longest_path(stage_s, m, 0)
                expect_equal(lab.makespan_s(stage_s, m), expected, call=call, idea=idea)
    uneven = [Fraction(3), Fraction(1), Fraction(5), Fraction(2)]
    for hop_s in (Fraction(0), Fraction(1, 4)):
        call = f"makespan_s(stage_s=[3, 1, 5, 2], m=4, hop_s={hop_s})"
        expected = longest_path(uneven, 4, hop_s)
        expect_equal(lab.makespan_s(uneven, 4, hop_s), expected, call=call, idea=idea)
    # 40 stage-seconds of work in a window of 4 x 19: a bubble of 9/19 instead of 3/11
    call = "makespan_s(stage_s=[1, 1, 2, 1], m=8)"
    expect_exact(lab.makespan_s([1, 1, 2, 1], 8), 19, call=call, idea=idea)


# --- what it costs beside TP --------------------------------------------------------------------


@pytest.mark.points(8)
def test_plan_bill(lab):
    """Over two nodes TP sends 600 times the bytes of TP x PP."""
    idea = "walk the ranks: who sends to whom, and does that link leave the node"
    plans = [(1, 1), (1, 6), (2, 1), (2, 3), (4, 3), (8, 1), (8, 2), (16, 2), (32, 1), (1, 24)]
    for tp_size, pp_size in plans:
        for gpus_per_node in (1, 4, 8):
            arguments = (tp_size, pp_size, gpus_per_node, 24, 768, 5, 6, 2)
            call = (
                f"plan_bill(tp_size={tp_size}, pp_size={pp_size}, gpus_per_node={gpus_per_node}, "
                "num_layers=24, hidden_size=768, tokens=5, m=6, bytes_per_value=2)"
            )
            expected = rank_by_rank_bill(*arguments)
            expect_exact(lab.plan_bill(*arguments), expected, call=call, idea=idea)
    for arguments in (
        (6, 1, 3, 1, 5, 1, 1, 1),
        (6, 3, 3, 5, 7, 1, 2, 1),
    ):  # a sixth of 5 or 7 bytes
        call = f"plan_bill{arguments}"
        idea = "a rank's share of the bytes need not be whole: Fraction(activation_bytes, tp_size)"
        expected = rank_by_rank_bill(*arguments)
        assert expected["bytes_between_nodes"].denominator == 3
        expect_exact(lab.plan_bill(*arguments), expected, call=call, idea=idea)
    model = (8, 80, 8192, 1, 64)  # nodes of 8 GPUs, 80 layers, hidden 8192, one token, m = 64
    call = f"plan_bill(16, 1, {', '.join(map(str, model))}), bytes_per_value left at 2"
    expect_exact(lab.plan_bill(16, 1, *model), rank_by_rank_bill(16, 1, *model, 2), call=call)
    across = lab.plan_bill(16, 1, *model)["bytes_between_nodes"]
    composed = lab.plan_bill(8, 2, *model)["bytes_between_nodes"]
    assert across == 600 * composed > 0, (
        f"80 layers on 2 x 8 GPUs: TP=16 sends {across} bytes between the nodes, TP=8 x PP=2 sends "
        f"{composed}; expected 600 times as many"
    )


@pytest.mark.points(5)
def test_bad_input_is_refused(lab):
    """Bad input is refused by name and value."""
    hundredth = Fraction(1, 100)
    cases = [
        ("bubble_fraction", (0, 4), ["p=0"]),
        ("bubble_fraction", (4, -1), ["m=-1"]),
        ("bubble_fraction", (2.5, 4), ["p=2.5"]),
        ("schedule_grid", (0, 4), ["p=0"]),
        ("schedule_grid", (4, 0), ["m=0"]),
        ("grid_bubble", ([],), ["grid"]),
        ("grid_bubble", ([[], []],), ["grid"]),
        ("grid_bubble", ([[0], [0, 1]],), ["grid"]),
        ("grid_bubble", ([3],), ["grid"]),
        ("grid_bubble", (([0], [1]),), ["grid"]),
        ("min_microbatches", (0, 0.1), ["p=0"]),
        ("min_microbatches", (8, 0.0), ["budget=0.0"]),
        ("min_microbatches", (8, 1.0), ["budget=1.0"]),
        ("min_microbatches", (8, -0.1), ["budget=-0.1"]),
        ("min_microbatches", (8, 1.5), ["budget=1.5"]),
        ("min_microbatches", (8, 10), ["budget=10"]),
        ("min_microbatches", (8, float("nan")), ["budget=nan"]),
        ("latency_s", (0, 1.0, 0.0), ["p=0"]),
        ("latency_s", (2, 0.0, 0.0), ["model_s=0.0", "above 0"]),
        ("latency_s", (2, float("inf"), 0.0), ["model_s=inf"]),
        ("latency_s", (2, True, 0.0), ["model_s=True"]),
        ("latency_s", (2, "1", 0.0), ["model_s='1'"]),
        ("latency_s", (2, 1.0, -0.5), ["hop_s=-0.5", "0 or more"]),
        ("throughput_per_s", (2, 0, 1.0, 0.0), ["m=0"]),
        ("decode_steps_per_s", (2, 0, 1.0, 0.0), ["in_flight=0"]),
        ("makespan_s", ([], 3), ["stage_s=[]"]),
        ("makespan_s", ([hundredth, Fraction(0)], 3), ["stage_s[1]", "0"]),
        ("makespan_s", ([hundredth], 0), ["m=0"]),
        ("makespan_s", ([hundredth], 2, -1), ["hop_s=-1"]),
        ("plan_bill", (0, 1, 8, 32, 4096, 1, 8), ["tp_size=0"]),
        ("plan_bill", (1, 0, 8, 32, 4096, 1, 8), ["pp_size=0"]),
        ("plan_bill", (1, 33, 8, 32, 4096, 1, 8), ["pp_size=33", "32"]),
        ("plan_bill", (3, 2, 8, 32, 4096, 1, 8), ["tp_size=3", "8"]),
        ("plan_bill", (12, 2, 8, 32, 4096, 1, 8), ["tp_size=12", "8"]),
        ("plan_bill", (1, 1, 0, 32, 4096, 1, 8), ["gpus_per_node=0"]),
        ("plan_bill", (1, 1, 8, 0, 4096, 1, 8), ["num_layers=0"]),
        ("plan_bill", (1, 1, 8, 32, 0, 1, 8), ["hidden_size=0"]),
        ("plan_bill", (1, 1, 8, 32, 4096, 0, 8), ["tokens=0"]),
        ("plan_bill", (1, 1, 8, 32, 4096, 1, 0), ["m=0"]),
        ("plan_bill", (1, 1, 8, 32, 4096, 1, 8, 0), ["bytes_per_value=0"]),
    ]
    for name, arguments, mentions in cases:
        shown = ", ".join(str(argument) for argument in arguments)
        call = f"{name}({shown})"
        expect_error(
            ValueError,
            lambda n=name, a=arguments: getattr(lab, n)(*a),
            call=call,
            mentions=mentions,
        )


# --- stretch: forwards and backwards --------------------------------------------------------------


@pytest.mark.points(7)
def test_replay(lab):
    """An op starts when its inputs are there; a deadlock is named."""
    order = [ops("0F0 0F1 0B0 0B1"), ops("1F0 1B0 1F1 1B1")]
    by_hand = [
        ops("0F0 0F1 . . 0B0 0B0 . 0B1 0B1"),
        ops(". 1F0 1B0 1B0 1F1 1B1 1B1 . ."),
    ]
    expect_equal(lab.replay(order), by_hand, call=f"replay({order})")
    captures = torch_orders("GPipe", "1F1B runtime", "LoopedBFS", "Interleaved1F1B")
    assert len(captures) == 75
    for capture in captures:
        for ticks in ((1, 2), (3, 4)) if capture["p"] == 3 else ((1, 2),):
            call = f"replay(torch's {capture['title']}, {ticks[0]}, {ticks[1]})"
            expected = earliest_grid(capture["order"], *ticks)
            actual = lab.replay(capture["order"], *ticks)
            if (
                actual != expected
            ):  # large grids: look for the first difference only if there is one
                expect_equal(actual, expected, call=call, idea="max(own clock, inputs finished)")
    for capture in torch_orders("GPipe"):
        call = f"gpipe_order(p={capture['p']}, m={capture['m']})"
        expect_equal(lab.gpipe_order(capture["p"], capture["m"]), capture["order"], call=call)
    circle = [ops("0F0 0B0"), ops("1B0 1F0")]
    expect_error(
        ValueError,
        lambda: lab.replay(circle),
        call=f"replay({circle}), where rank 1 wants to go back before it went forward",
        mentions=["deadlock", "rank 0", "('B', 0, 0)", "rank 1", "('B', 1, 0)"],
    )
    refused = [
        (([],), ["order"]),
        (([[], []],), ["order"]),
        (([[("F", 0, 0), ("X", 0, 0)]],), ["order", "'X'"]),
        ((order, 0, 2), ["forward_ticks=0"]),
        ((order, 1, 0), ["backward_ticks=0"]),
    ]
    for arguments, mentions in refused:
        call = f"replay{arguments}"
        expect_error(ValueError, lambda a=arguments: lab.replay(*a), call=call, mentions=mentions)


@pytest.mark.points(6)
def test_1f1b(lab):
    """1F1B keeps GPipe's bubble but holds p - r activations, not m."""
    captures = torch_orders("1F1B runtime")
    assert len(captures) == 15
    for capture in captures:
        p, m = capture["p"], capture["m"]
        call = f"one_f_one_b_order(p={p}, m={m}) against what torch 2.13.0 runs"
        idea = "p - 1 - r forwards to warm up, then pairs, then what is left"
        expect_equal(lab.one_f_one_b_order(p, m), capture["order"], call=call, idea=idea)
    for p, m in [(1, 1), (1, 3), (3, 2), (4, 8), (5, 1), (5, 12)]:  # torch refuses m < p
        order = lab.one_f_one_b_order(p, m)
        call = f"one_f_one_b_order(p={p}, m={m})"
        expect_order(order, p, p, m, call)
        for rank, rank_ops in enumerate(order):
            for kind in "FB":
                ran = [i for k, _, i in rank_ops if k == kind]
                expect_equal(ran, list(range(m)), call=f"{call}, the {kind} of rank {rank}")
        bubble = window_bubble(earliest_grid(order))
        expect_equal(bubble, counted_bubble(p, m), call=f"the bubble of {call}")
        expected = [min(m, p - rank) for rank in range(p)]
        expect_equal(
            lab.peak_live_activations(order), expected, call=f"peak_live_activations({call})"
        )
    gpipe = [ops(f"{r}F0 {r}F1 {r}F2 {r}B0 {r}B1 {r}B2") for r in range(2)]
    expect_equal(lab.peak_live_activations(gpipe), [3, 3], call="peak_live_activations(GPipe, m=3)")
    late = [ops("0F0 0F1 0B0 0F2 0F3 0B1 0B2 0B3")]  # 2, then 1, then 3
    expect_equal(lab.peak_live_activations(late), [3], call=f"peak_live_activations({late})")
    for arguments, mentions in (((0, 4), ["p=0"]), ((4, 0), ["m=0"])):
        call = f"one_f_one_b_order{arguments}"
        expect_error(
            ValueError, lambda a=arguments: lab.one_f_one_b_order(*a), call=call, mentions=mentions
        )
    expect_error(
        ValueError,
        lambda: lab.peak_live_activations([]),
        call="peak_live_activations([])",
        mentions=["order"],
    )


@pytest.mark.points(6)
def test_interleaved(lab):
    """v chunks per rank: bubble (p-1)/(vm+p-1), more activations."""
    captures = torch_orders("Interleaved1F1B")
    assert len(captures) == 30
    for capture in captures:
        p, m, v = capture["p"], capture["m"], capture["v"]
        call = f"interleaved_order(p={p}, m={m}, v={v})"
        order = lab.interleaved_order(p, m, v)
        idea = "groups of p microbatches, chunk by chunk; (v-1)p + 2(p-1-r) warm-up forwards"
        expect_equal(order, capture["order"], call=f"{call} against torch 2.13.0", idea=idea)
        if p <= 4:
            bubble = window_bubble(earliest_grid(order))
            expect_equal(bubble, counted_bubble(p, v * m), call=f"the bubble of {call}")
    order = lab.interleaved_order(4, 8, 2)
    call = "peak_live_activations(interleaved_order(p=4, m=8, v=2))"
    idea = "warm-up plus one; each of half the size of 1F1B's 4, 3, 2, 1"
    expect_equal(lab.peak_live_activations(order), [11, 9, 7, 5], call=call, idea=idea)
    alone = [ops("0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1")]
    one_rank = lab.interleaved_order(1, 2, 2)
    expect_order(one_rank, 1, 2, 2, "interleaved_order(p=1, m=2, v=2)")
    expect_equal(one_rank, alone, call="interleaved_order(p=1, m=2, v=2)")
    for arguments, mentions in (
        ((0, 4, 2), ["p=0"]),
        ((2, 0, 2), ["m=0"]),
        ((2, 4, 1), ["v=1"]),
        ((4, 6, 2), ["m=6", "p=4"]),
    ):
        call = f"interleaved_order{arguments}"
        expect_error(
            ValueError, lambda a=arguments: lab.interleaved_order(*a), call=call, mentions=mentions
        )


@pytest.mark.points(3)
def test_who_is_right(lab):
    """Torch's published 1F1B list disagrees with you on the last rank."""
    captures = torch_orders("1F1B")
    assert len(captures) == 15
    for capture in captures:
        p, m, order = capture["p"], capture["m"], capture["order"]
        findings = {"missing": [("F", p - 1, 0)], "unknown": [("F", p - 1, m)], "repeated": []}
        call = f"audit_order(torch's published {capture['title']}, num_stages={p}, m={m})"
        expect_equal(lab.audit_order(order, p, m), findings, call=call)
    clean = {"missing": [], "unknown": [], "repeated": []}
    for capture in torch_orders("1F1B runtime", "Interleaved1F1B"):
        arguments = (capture["order"], capture["p"] * capture["v"], capture["m"])
        call = (
            f"audit_order(torch's {capture['title']}, num_stages={arguments[1]}, m={capture['m']})"
        )
        expect_equal(lab.audit_order(*arguments), clean, call=call)
    order = [ops("0F0 0F0 0B0 2F0 0F0"), ops("1B0 1B0 1B7")]
    findings = {
        "missing": ops("1F0"),
        "unknown": ops("1B7 2F0"),
        "repeated": ops("1B0 0F0"),
    }
    call = f"audit_order({order}, num_stages=2, m=1)"
    expect_equal(lab.audit_order(order, 2, 1), findings, call=call, idea="sorted, each op once")
    for arguments, mentions in ((([], 0, 1), ["num_stages=0"]), (([], 1, 0), ["m=0"])):
        call = f"audit_order{arguments}"
        expect_error(
            ValueError, lambda a=arguments: lab.audit_order(*a), call=call, mentions=mentions
        )


@pytest.mark.points(2)
def test_two_bubbles(lab):
    """One ZBV grid, two bubbles: 1/17 of the window, 0 of the span."""
    (zbv,) = (c for c in torch_orders("ZBVZeroBubble") if (c["p"], c["m"]) == (4, 8))
    grid = earliest_grid(zbv["order"])
    call = "grid_bubble(ZBV, p=4, m=8)"
    expect_equal(lab.grid_bubble(grid), Fraction(1, 17), call=call, idea="idle cells of the window")
    call = "span_bubble(ZBV, p=4, m=8)"
    idea = "ranks start and end at different times, but none pauses in between"
    expect_equal(lab.span_bubble(grid), Fraction(0), call=call, idea=idea)
    idle = [None] * 5
    for grid, expected in (
        ([[None, 0, None, 1, None], idle], Fraction(1, 3)),
        ([[0, 1, None, None, 2], idle], Fraction(2, 5)),
        ([[0, None, 2], [None] * 3], Fraction(1, 3)),
        ([["a", None, "a"], ["a", "a", "a"]], Fraction(0)),
        ([[0, 1, None], [0, None, 1]], Fraction(1, 3)),
    ):
        idea = "the longest span and the most work, each over all ranks, not rank by rank"
        expect_equal(lab.span_bubble(grid), expected, call=f"span_bubble({grid})", idea=idea)
    for grid in ([], [[]], [[0], [0, 1]], [[None, None], [None, None]]):
        call = f"span_bubble({grid})"
        expect_error(ValueError, lambda g=grid: lab.span_bubble(g), call=call, mentions=["grid"])


# --- oracles ------------------------------------------------------------------------------------


def expect_exact(actual, expected, call, idea=""):
    """expect_equal for a number or a dict of them; 19 may be an int or a Fraction, not a float."""

    def as_type_of(value, number):
        if type(value) is Fraction:
            return Fraction(number)
        return int(number) if type(value) is int and number == int(number) else number

    if isinstance(expected, dict) and isinstance(actual, dict):
        expected = {key: as_type_of(actual.get(key), value) for key, value in expected.items()}
    else:
        expected = as_type_of(actual, expected)
    expect_equal(actual, expected, call=call, idea=idea)


def expect_grid(grid, p, call):
    """A list of p lists of one length >= 1; asserted first: no loop below may run over nothing."""
    assert isinstance(grid, list) and len(grid) == p and all(isinstance(r, list) for r in grid), (
        f"{call}: returned {reprlib.repr(grid)}, expected a list of {p} rows (lists), one per stage"
    )
    assert len({id(row) for row in grid}) == p, (
        f"{call}: several rows are one and the same list, as [[None] * n] * {p} makes them: "
        "writing into one writes into all. Make each row on its own."
    )
    widths = {len(row) for row in grid}
    assert len(widths) == 1 and widths != {0}, (
        f"{call}: the rows have {sorted(widths)} ticks; all need the same number, 1 or more"
    )


def expect_order(order, num_ranks, num_stages, m, call):
    """A list of num_ranks lists which together hold every op once."""
    assert isinstance(order, list) and len(order) == num_ranks, (
        f"{call}: returned {reprlib.repr(order)}, expected a list of {num_ranks} lists, one per "
        "rank"
    )
    due = sorted((kind, stage, i) for kind in "FB" for stage in range(num_stages) for i in range(m))
    held = sorted(op for rank_ops in order for op in rank_ops)
    expect_equal(held, due, call=f"{call}, all its ops sorted")


def window_bubble(grid):
    return Fraction(sum(row.count(None) for row in grid), len(grid) * len(grid[0]))


def counted_bubble(p, m):
    """Idle share by walking the cells: stage s can only be busy in ticks s .. s + m - 1."""
    window = range(p + m - 1)
    busy = sum(stage <= tick < stage + m for stage in range(p) for tick in window)
    return 1 - Fraction(busy, p * len(window))


def longest_path(stage_s, m, hop_s):
    """The slowest chain of work that must happen in sequence: every staircase from the first
    microbatch on the first stage to the last microbatch on the last stage."""
    p = len(stage_s)
    longest = 0
    for turns in combinations(range(m + p - 2), p - 1):  # the steps that go to the next stage
        stage, total = 0, stage_s[0]
        for step in range(m + p - 2):
            if step in turns:
                stage, total = stage + 1, total + hop_s
            total += stage_s[stage]
        longest = max(longest, total)
    return longest


def decode_loop_rate(p, in_flight, model_s, hop_s):
    """Play the loop: who left the last stage goes back to stage 0. Count the second half."""
    rounds, unit = 40, math.lcm((model_s / p).denominator, hop_s.denominator)
    stage, hop = int(model_s / p * unit), int(hop_s * unit)  # whole numbers: exact, and fast
    free, left, half_time = [0] * p, [0] * in_flight, 0
    for turn in range(2 * rounds):
        for i in range(in_flight):
            at = left[i]
            for i_stage in range(p):
                free[i_stage] = max(free[i_stage], at) + stage
                at = free[i_stage] + (hop if i_stage < p - 1 else 0)
            left[i] = at
        if turn == rounds - 1:
            half_time = left[-1]
    return Fraction(rounds * in_flight * unit, left[-1] - half_time)


def rank_by_rank_bill(
    tp_size, pp_size, gpus_per_node, num_layers, hidden_size, tokens, m, bytes_per_value
):
    """Place every rank on a node and follow each message of one microbatch."""

    def node(stage, tp_rank):
        return (stage * tp_size + tp_rank) // gpus_per_node

    activation = tokens * hidden_size * bytes_per_value
    hops = {True: 0, False: 0}  # does the slowest link of a step leave its node?
    crossing_bytes = Fraction(0)
    # all stages are placed alike, so stage 0 stands for the all-reduces of all layers
    if tp_size > 1:
        leaves = [node(0, r) != node(0, (r + 1) % tp_size) for r in range(tp_size)]
        for _ in range(2 * num_layers):
            for _ in range(2 * (tp_size - 1)):  # ring steps: every rank sends 1/tp to its neighbour
                hops[any(leaves)] += 1
                crossing_bytes += sum(leaves) * Fraction(activation, tp_size)
    for stage in range(pp_size - 1):
        leaves = [node(stage, r) != node(stage + 1, r) for r in range(tp_size)]
        hops[any(leaves)] += 1
        crossing_bytes += sum(leaves) * Fraction(activation, tp_size)
    return {
        "num_nodes": 1 + node(pp_size - 1, tp_size - 1),
        "bubble": counted_bubble(pp_size, m),
        "activation_bytes": activation,
        "local_hops": hops[False],
        "node_hops": hops[True],
        "bytes_between_nodes": crossing_bytes,
    }


# --- schedules of torch 2.13.0, kept as data (torch_orders.py made them) --------------------------


def ops(text):
    """'2F7 .' -> [("F", 2, 7), None]; whatever is no op, such as torch's REDUCE_GRAD, is None."""
    found = [OP.fullmatch(word) for word in text.split()]
    return [(op[2], int(op[1]), int(op[3])) if op else None for op in found]


@cache
def torch_orders(*schedules):
    """The captured orders of these schedules, in order of size.

    Torch's dots are decoration for its visualiser and REDUCE_GRAD is no microbatch's op: left out.
    """
    captures = json.loads((CAPTURES / "torch-schedules" / "orders.json").read_text())
    chosen = []
    for row in captures:
        if row["schedule"] in schedules:
            order = [[op for op in ops(rank) if op is not None] for rank in row["ranks"]]
            title = f"{row['schedule']} p={row['p']} m={row['m']} v={row['v']}"
            chosen.append(row | {"order": order, "title": title})
    return chosen


def earliest_grid(order, forward_ticks=1, backward_ticks=2):
    """When each op runs if nobody waits without a reason: sort all needs, then add up.

    A backward may come in two halves of one tick: I (for the input) and W (for the weights).
    """
    ticks = {"F": forward_ticks, "B": backward_ticks, "I": 1, "W": 1}
    held = {op for rank_ops in order for op in rank_ops}
    before = {op: [] for op in held}  # op -> the ops that must have finished
    for rank_ops in order:
        for earlier, op in pairwise(rank_ops):
            before[op].append(earlier)
    for kind, stage, i in held:
        if kind == "F":
            needs = [("F", stage - 1, i)]
        elif kind == "W":
            needs = [("I", stage, i)]
        else:
            needs = [("F", stage, i), (kind, stage + 1, i)]
        before[kind, stage, i] += [need for need in needs if need in held]
    finish = {}
    for op in TopologicalSorter(before).static_order():
        finish[op] = max((finish[need] for need in before[op]), default=0) + ticks[op[0]]
    grid = [[None] * max(finish.values()) for _ in order]
    for row, rank_ops in zip(grid, order, strict=True):
        for op in rank_ops:
            row[finish[op] - ticks[op[0]] : finish[op]] = [op] * ticks[op[0]]
    return grid
