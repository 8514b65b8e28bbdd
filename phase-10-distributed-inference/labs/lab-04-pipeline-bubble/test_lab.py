"""Lab 04: what a pipeline buys, what its bubble costs, and whose schedule is right.

Every number is exact, so every comparison is: times are Fractions, grids are lists. What is right
is found in another way than the solution's, at the end of this file: by trying all paths, by
walking cells, ranks and messages, and from orders that torch was seen to run.
"""

import json
import math
import random
import re
from fractions import Fraction
from functools import cache
from graphlib import TopologicalSorter
from itertools import accumulate, combinations, pairwise, permutations, product
from pathlib import Path

import pytest

from labkit.drawing import beside
from labkit.expect import Unexpected, expect_close, expect_equal, expect_error
from labkit.recorder import brief

HERE = Path(__file__).parent
TENTH = Fraction(1, 10)


# --- the bubble, by algebra and by counting ---------------------------------------------------


@pytest.mark.points(6)
def test_bubble_fraction__is_the_exact_idle_share(lab):
    """The bubble of p stages and m microbatches is {(p-1)/(p+m-1)}, exactly."""
    idea = (
        "how many ticks does a stage work, how many does it wait, from the first tick to the last"
    )
    for p, m in sweep():
        given, expected = lab.bubble_fraction(p, m), counted_bubble(p, m)
        rounded = type(given) is Fraction and abs(given - expected) < 0.001
        why = "a float stood in between; Fraction(a, b) of two whole numbers is exact"
        expect_equal(given, expected, idea=why if rounded else idea)
    m = random.Random(1).randint(10**6, 2 * 10**6)  # two stages: each waits one tick of m + 1
    expect_equal(lab.bubble_fraction(2, m), Fraction(1, m + 1), idea=why)
    p = random.Random(1).randint(1000, 2000)
    expect_equal(lab.bubble_fraction(p, 1), Fraction(p - 1, p), idea=idea)


@pytest.mark.points(3)
@pytest.mark.waits_for("test_bubble_fraction__is_the_exact_idle_share")
def test_bubble_fraction__lies_just_below_published_bubbles(lab):
    """A paper's bubbles, from measured passes, lie at most {3} points above the formula."""
    facts = (HERE / "measurements.jsonl").read_text().splitlines()
    rates = [json.loads(line) for line in facts if '"bubble_rate"' in line]
    assert len(rates) == 3
    # so many times the waits and the microbatches are the same share
    for rate, times in product(rates, (1, random.Random(1).randint(2, 5000))):
        p, m = rate["setting"]["p"], rate["setting"]["m"]
        share = lab.bubble_fraction(times * (p - 1) + 1, times * m)
        expect(
            0 < rate["value"] - share < 0.03,
            f"returned {float(share):.4f}; published is {rate['value']}. Hops and uneven stages "
            "add 1 to 3 points, no more",
        )


@pytest.mark.points(6)
def test_schedule_grid__runs_every_microbatch_in_order(lab):
    """Every stage runs every microbatch once, in order."""
    for p, m in (*sizes(), (2, 701), (140, 3)):
        grid = lab.schedule_grid(p, m)
        expect_rows(grid, p)
        with drawn(grid, forward_grid(p, m)):
            for stage, row in enumerate(grid):
                ran = [cell for cell in row if cell is not None]
                idea = "idle cells are None, all others are microbatches"
                expect_equal(ran, list(range(m)), part=f", what stage {stage} runs", idea=idea)


@pytest.mark.points(9)
@pytest.mark.waits_for("test_schedule_grid__runs_every_microbatch_in_order")
def test_schedule_grid__starts_none_early_or_late(lab):
    """No microbatch runs before its input is there, or needlessly late."""
    for p, m in (*sizes(), (2, 701), (140, 3)):
        grid = lab.schedule_grid(p, m)
        expect_rows(grid, p)
        with drawn(grid, forward_grid(p, m)):
            expect_earliest(grid, m)
        for row in grid:
            if isinstance(row, list):  # a tuple cannot be spoiled
                row[:] = ["spoiled"]  # a grid that was handed out is the caller's own
        expect(lab.schedule_grid(p, m)[0][0] == 0, "the same call gives what the caller overwrote")


def expect_earliest(grid, m):
    """Each microbatch runs in the first tick in which it is there and its stage is free."""
    before = {i: -1 for i in range(m)}  # the tick in which the stage before ran microbatch i
    for stage, row in enumerate(grid):
        ran = {cell: tick for tick, cell in enumerate(row) if cell is not None}
        expect(ran.keys() == before.keys(), f"stage {stage} runs {sorted(ran)}, not each once")
        free = 0
        for i, tick in sorted(ran.items()):
            what = f"stage {stage} runs microbatch {i} in tick {tick}"
            last = before[i]
            expect(tick > last, f"{what}, but stage {stage - 1} finishes it with tick {last}")
            earliest = max(last + 1, free)
            expect(tick == earliest, f"{what}; it is there and the stage free in {earliest}")
            free = tick + 1
        before = ran
    expect(
        any(row[-1] is not None for row in grid),
        f"nothing runs in the last of {len(grid[0])} ticks; the window ends with work",
    )


@pytest.mark.points(4)
def test_grid_bubble__counts_the_idle_cells(lab):
    """The bubble of any grid is its idle cells over all its cells."""
    idea = "count the cells that are None, in all rows"
    # microbatch 0 is work, though it is false in Python
    expect_equal(lab.grid_bubble([[0, 1, 2, 3], [None] * 3 + [0]]), Fraction(3, 8), idea=idea)
    expect_equal(lab.grid_bubble([[None, None]]), Fraction(1), idea=idea)
    expect_equal(lab.grid_bubble([[0]]), Fraction(0), idea=idea)
    rng = random.Random(4)
    for rows, width in [(1, 1), (1, 7), (3, 5), (3, 5), (3, 5), (6, 2), (3, 1009)]:
        for work in (0, -1, ("F", 1, 0), "a", "", ()):
            grid = [[rng.choice([None, work, work]) for _ in range(width)] for _ in range(rows)]
            expect_equal(lab.grid_bubble(grid), window_bubble(grid), idea=idea)
    width = rng.randint(10_001, 20_000)
    one_idle = [[0] * width, [0] * (width - 1) + [None]]
    expect_equal(lab.grid_bubble(one_idle), Fraction(1, 2 * width), idea="one cell of many")


@pytest.mark.points(5)
@pytest.mark.waits_for(
    "test_bubble_fraction__is_the_exact_idle_share",
    "test_schedule_grid__runs_every_microbatch_in_order",
    "test_schedule_grid__starts_none_early_or_late",
    "test_grid_bubble__counts_the_idle_cells",
)
def test_grid_bubble__of_the_simulation_equals_the_formula(lab):
    """Counted idle cells equal the formula, up to p = 16 and m = 128."""
    for p, m in sweep():
        grid = lab.schedule_grid(p, m)
        expect_rows(grid, p)
        counted = counted_bubble(p, m)
        expect_equal(window_bubble(grid), counted, part=", its idle cells over all cells")
        if m % 8 == 0:
            expect_equal(lab.grid_bubble(grid), counted)
        expect_equal(lab.bubble_fraction(p, m), counted)


@pytest.mark.points(8)
def test_min_microbatches__is_the_fewest(lab):
    """8 stages idle 10% with {63} microbatches; under 10% takes {64}."""
    by_hand = [
        ((8, 0.1), 63),  # 7/70 is exactly 10%
        ((8, TENTH), 63),
        ((8, TENTH, True), 64),
        ((8, 0.1, True), 64),  # as a binary float 0.1 is a hair above a tenth: 63 would pass
        ((4, 0.3), 7),  # 3/10 is exactly 30%; as a binary float 0.3 is a hair below it
        ((4, Fraction(29, 100)), 8),  # 7 gives 30%, 8 gives 27.3%
        ((8, 0.0015), 4660),  # 7/4667 is just under it, 7/4666 just over
        ((8, Fraction(1, 1500)), 10493),  # 7/10500 exactly
        ((2, 0.00007), 14285),  # no fraction with a small denominator comes near it
        ((2, 1e-05, True), 100000),  # which Python writes so; as a binary float 99999 would pass
        ((200, 0.99), 3),
        ((1, TENTH), 1),
        ((1, TENTH, True), 1),
    ]
    for arguments, expected in by_hand:
        idea = met(expected, *arguments)
        expect_equal(lab.min_microbatches(*arguments), expected, idea=idea)
    rng = random.Random(4)
    budgets = [Fraction(n, d) for d in (2, 3, 7, rng.randint(8, 50)) for n in range(1, d)]
    for p, budget, strict in product((1, 2, 3, rng.randint(4, 9)), budgets, (False, True)):
        expected = fewest(p, budget, strict)
        idea = met(expected, p, budget, strict)
        expect_equal(lab.min_microbatches(p, budget, strict), expected, idea=idea)
    for p, percent, strict in product((4, 10, rng.randint(11, 20)), range(25, 100), (False, True)):
        expected = fewest(p, Fraction(percent, 100), strict)
        idea = met(expected, p, percent / 100, strict)
        expect_equal(lab.min_microbatches(p, percent / 100, strict), expected, idea=idea)
    # 1/3 as a float is written 0.3333333333333333, which is less than a third
    shares = [1 / k for k in (3, 4, rng.randint(5, 99))]
    for share, end, strict in product(shares, (0, None, 1), (False, True)):
        budget = share if end is None else math.nextafter(share, end)
        expected = fewest(2, Fraction(str(budget)), strict)
        idea = "a float means the decimal it is written as, to its last digit"
        given = lab.min_microbatches(2, budget, strict)
        # the call before it shows twelve digits of the budget
        expect_equal(given, expected, idea=idea, part=f", where budget is {budget!r}")


def met(m, p, budget, strict=False):
    """What this many microbatches, and one fewer, make of the budget."""
    if p == 1:
        return "one stage never waits, and one microbatch at least goes through"
    least = f"{m} make a bubble of {counted_bubble(p, m)}"
    fewer = f", {m - 1} one of {counted_bubble(p, m - 1)}" if m > 1 else ""
    wanted = "under" if strict else "at or under"
    return f"{least}{fewer}; it must be {wanted} {Fraction(str(budget))}"


# --- what it buys -----------------------------------------------------------------------------


def times():
    """(model_s, hop_s): free hops, short ones, and hops that are longer than any stage."""
    rng = random.Random(5)
    model_ms = rng.randint(9, 40)
    for hop_ms in (rng.randint(1, 8), 0, model_ms):
        yield Fraction(model_ms, 1000), Fraction(hop_ms, 1000)
    yield Fraction(model_ms, 1009), Fraction(rng.randint(500, 999), 1013)  # no whole ms
    yield Fraction(rng.randint(10**5, 10**6), 1009), Fraction(rng.randint(2000, 9999), 1013)
    yield rng.choice((101, 103, 107)), Fraction(rng.randint(10, 20), 7)  # no p > 1 divides it


@pytest.mark.points(5)
def test_latency_s__gains_nothing_from_stages(lab):
    """More stages make no request faster: they add {p - 1} hops."""
    for p, (model_s, hop_s) in product((1, 2, 3, random.Random(6).randint(4, 99)), times()):
        hops = f"{counted(p - 1, 'hop')} between {p} stages" if p > 1 else "one stage has no hop"
        idea = f"a microbatch meets every layer, and {hops}"
        expected = longest_path([Fraction(model_s) / p] * p, 1, hop_s)
        expect_seconds(lab.latency_s(p, model_s, hop_s), expected, idea=idea)
    idea = "a microbatch meets every layer, and 3 hops between 4 stages"
    expect_close(lab.latency_s(4, 0.02, 0.001), 0.023, atol=1e-12, idea=idea)


@pytest.mark.points(5)
@pytest.mark.waits_for("test_latency_s__gains_nothing_from_stages")
def test_throughput_per_s__nears_that_of_p_devices(lab):
    """Throughput of a batch that passes once nears that of p devices."""
    some = random.Random(7).randint(3, 7)
    passes = [*product((1, 2, 3, 4), (1, 2, some)), (2, 130), (20, 2)]
    for (p, m), (model_s, hop_s) in product(passes, times()):
        idea = "1 microbatch over the seconds of one latency"
        if m > 1:
            idea = (
                f"{m} microbatches over their seconds: the first takes the latency, each further "
            )
            idea += "one leaves a stage's time later"
        if hop_s > model_s / p and m > 1:
            idea += ": a hop, however long, keeps no stage busy"
        expected = m / longest_path([Fraction(model_s) / p] * p, m, hop_s)
        expect_seconds(lab.throughput_per_s(p, m, model_s, hop_s), expected, idea=idea)
    expect_close(lab.throughput_per_s(4, 5, 0.02, 0.001), 5 / 0.043, atol=1e-9, idea=idea)


@pytest.mark.points(6)
@pytest.mark.waits_for("test_latency_s__gains_nothing_from_stages")
def test_decode_steps_per_s__starves_with_few_in_flight(lab):
    """Decoding starves with fewer than {p} in flight, and more where hops take time."""
    some = random.Random(8).sample(range(6, 30), 2)
    loops = [*product((1, 2, 3, 4), (1, 2, 3, 5, *some)), (2, 130), (21, 20), (21, 22)]
    for (p, in_flight), (model_s, hop_s) in product(loops, times()):
        expected = decode_loop_rate(p, in_flight, Fraction(model_s), hop_s)
        # what a round of the loop waits for, in this call
        stages, way = in_flight * model_s / p, model_s + (p - 1) * hop_s
        taken = counted(in_flight, "microbatch", "es")
        idea = f"{taken} per round, which here is the time of all in one stage"
        if way > stages:
            idea = f"{taken} per round, which here is one's way, {counted(p - 1, 'hop')} and all"
        given = lab.decode_steps_per_s(p, in_flight, model_s, hop_s)
        expect_seconds(given, expected, idea=idea)
    for args, rate in (((4, 2, 0.02, 0.001), 2 / 0.023), ((3, 2, 0.7, 0), 2 / 0.7)):
        expect_close(lab.decode_steps_per_s(*args), rate, atol=1e-9)


@pytest.mark.points(8)
def test_makespan_s__follows_the_slowest_stage(lab):
    """One slow stage sets the pace, wherever it stands."""
    idea = "every microbatch passes the slow stage, and the next one waits for it"
    alone = "one microbatch passes every stage once and waits for nobody"
    hops = "a hop lies between two stages, delays all microbatches alike and keeps no stage busy"
    slow_stage = [
        [Fraction(k if stage == slow else 1) for stage in range(p)]
        for k, p in product((2, 3), (1, 3, 4))
        for slow in range(p)
    ]
    rng = random.Random(4)
    uneven = [
        [Fraction(rng.randint(1, 9), rng.choice((4, 1009, 1013))) for _ in range(p)]
        for p in (1, 2, 2, 3, 3, 4, 4, 5)
    ]
    for stage_s, m in product(slow_stage + uneven, (1, 2, 5)):
        expected = longest_path(stage_s, m, 0)
        expect_seconds(lab.makespan_s(stage_s, m), expected, idea=idea if m > 1 else alone)
    hop_long = Fraction(6), Fraction(1, 4)
    for stage_s, m, hop_s in product([slow_stage[-1], *uneven], (1, 4), hop_long):
        expect_seconds(lab.makespan_s(stage_s, m, hop_s), longest_path(stage_s, m, hop_s), hops)
    for at in (0, rng.randint(9, 38), 39):  # one slow stage of many; and many microbatches
        many = [Fraction(rng.randint(1, 9)) for _ in range(40)]
        many[at] = Fraction(10)
        expect_seconds(lab.makespan_s(many, 2, 3), longest_path(many, 2, 3), idea=idea)
    two = [Fraction(301, 3), Fraction(403, 4)]
    m = rng.randint(301, 400)
    expect_seconds(lab.makespan_s(two, m, 5), longest_path(two, m, 5), idea=idea)
    # 40 stage-seconds of work in a window of 4 x 19: a bubble of 9/19 instead of 3/11
    expect_seconds(lab.makespan_s([1, 1, 2, 1], 8), 19, idea=idea)
    expect_seconds(lab.makespan_s([1, 1, 2, 1], 8, Fraction(1, 7)), 19 + Fraction(3, 7), hops)
    expect_close(lab.makespan_s([0.01, 0.02], 3, 0.5), 0.57, atol=1e-12, idea=hops)


# --- what it costs beside TP --------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.waits_for("test_bubble_fraction__is_the_exact_idle_share")
def test_plan_bill__follows_every_message(lab):
    """Over two nodes TP sends {600} times the bytes of TP x PP."""
    plans = [(1, 1), (1, 6), (2, 1), (2, 3), (4, 3), (8, 1), (8, 2), (16, 2), (32, 1), (1, 24)]
    for (tp_size, pp_size), gpus_per_node in product([*plans, plans[0]], (1, 4, 8)):
        plan = (tp_size, pp_size, gpus_per_node, 24, 768, 5, 6, 2)
        bill = lab.plan_bill(*plan)
        expect_bill(bill, plan)
        bill["what the caller wrote"] = 1  # and plans[0] comes again
    # 80 layers of hidden size 8192, one token, on nodes of 8 GPUs; bytes_per_value left at 2
    for tp_size, pp_size in [(16, 1), (8, 2), (4, 4)]:
        plan = (tp_size, pp_size, 8, 80, 8192, 1, 64)
        expect_bill(lab.plan_bill(*plan), (*plan, 2))
    # many stages, a ring over many nodes, many microbatches
    for plan in [(2, 64, 8, 100, 768, 5, 300, 2), (128, 2, 8, 3, 768, 700, 6, 2)]:
        expect_bill(lab.plan_bill(*plan), plan)
    rng = random.Random(4)
    for gpus_per_node, pp_size in product((1, 3, 6, 8, 16, 72), (1, 2, 3, 5, 7)):
        fits = [n for n in range(1, 19) if gpus_per_node % n == 0 or n % gpus_per_node == 0]
        shape = rng.choice([7, 11, 13]), rng.choice([5, 7, 96]), rng.randint(1, 10**9)
        plan = (rng.choice(fits), pp_size, gpus_per_node, *shape, rng.randint(1, 9))
        for bytes_per_value in (1, 4):
            expect_bill(lab.plan_bill(*plan, bytes_per_value), (*plan, bytes_per_value))


@pytest.mark.points(3)
@pytest.mark.waits_for(
    "test_bubble_fraction__is_the_exact_idle_share",
    "test_schedule_grid__runs_every_microbatch_in_order",
    "test_grid_bubble__counts_the_idle_cells",
    "test_min_microbatches__is_the_fewest",
    "test_latency_s__gains_nothing_from_stages",
    "test_throughput_per_s__nears_that_of_p_devices",
    "test_decode_steps_per_s__starves_with_few_in_flight",
    "test_makespan_s__follows_the_slowest_stage",
    "test_plan_bill__follows_every_message",
)
def test_plan_bill__and_tasks_1_to_6_refuse_bad_input(lab):
    """Tasks 1 to 7 refuse bad input by name and value."""
    expect_refusals(lab, refused())


# --- stretch: forwards and backwards --------------------------------------------------------------


@pytest.mark.points(6)
def test_replay__starts_an_op_when_its_inputs_are_there(lab):
    """An op starts when its rank is free and its inputs are there."""
    order = [ops("0F0 0F1 0B0 0B1"), ops("1F0 1B0 1F1 1B1")]
    by_hand = [
        ops("0F0 0F1 . . 0B0 0B0 . 0B1 0B1"),
        ops(". 1F0 1B0 1B0 1F1 1B1 1B1 . ."),
    ]
    expect_grid(lab.replay(order), by_hand, when(1, 2))
    rng = random.Random(4)
    # places: the rank of each stage; no stage may be there
    for places in ([0, 1, 1, 0], [1, 0], [3, 0, 1], [0, 1, 2, 0, 1, 2], [0, 0, 1], [2, 1]):
        for m, ticks in ((1, (900, 1100)), (3, (1, 2)), (3, (3, 1))):
            dealt = dealt_order(places, m, rng)
            expect_grid(lab.replay(dealt, *ticks), earliest_grid(dealt, *ticks), when(*ticks))
    captures = small(torch_orders("GPipe", "1F1B runtime", "LoopedBFS", "Interleaved1F1B"))
    assert len(captures) == 45
    for capture in captures:
        for ticks in ((1, 2), (3, 4)) if capture["p"] == 3 else ((1, 2),):
            grid = lab.replay(capture["order"], *ticks)
            expect_grid(grid, earliest_grid(capture["order"], *ticks), when(*ticks))


def when(forward_ticks, backward_ticks):
    """When an op starts, and how long it takes, in words."""
    cells = f"an F fills {forward_ticks} and a B {backward_ticks} of its rank's cells"
    return f"an op starts at max(own clock, inputs finished); {cells}"


@pytest.mark.points(2)
@pytest.mark.waits_for("test_replay__starts_an_op_when_its_inputs_are_there")
def test_replay__names_the_ops_of_a_deadlock(lab):
    """An order that can never finish is refused; each stuck op is named."""
    i, j = random.Random(9).sample(range(1000), 2)
    stuck = [
        # rank 1 wants to go back before it went forward
        ([ops(f"0F{i} 0B{i}"), ops(f"1B{i} 1F{i}")], [("B", 0, i), ("B", 1, i)]),
        # nobody runs microbatch j on stage 0
        ([ops(f"0F{i} 0B{i}"), ops(f"1F{j} 1F{i} 1B{i}")], [("B", 0, i), ("F", 1, j)]),
        # rank 0 ends well, and nobody runs a forward on stage 2
        ([ops(f"0F{i}"), ops(f"1F{i} 1B{i}"), ops(f"2B{i}")], [("B", 1, i), ("B", 2, i)]),
        # nobody runs microbatch i on stage 1
        ([ops(f"0F{i} 0F{j} 0B{i}"), ops(f"1F{j} 1B{j}")], [("B", 0, i)]),
        # nobody runs a backward on the last stage, or anything on stage 0
        ([ops(f"0F{i} 0B{i}"), ops(f"1F{i}")], [("B", 0, i)]),
        ([ops(f"1F{i} 1B{i}")], [("F", 1, i)]),
        # three ranks that all wait for what nobody runs
        ([ops(f"{r}F{j}") for r in (1, 3, 5)], [("F", r, j) for r in (1, 3, 5)]),
    ]
    # both stages on one rank: of all successions one can run, up to its first op out of turn
    right = ops(f"0F{i} 1F{i} 1B{i} 0B{i}")
    for order in permutations(right):
        late = [op for op, due in zip(order, right, strict=True) if op != due]
        stuck += [([list(order)], [op]) for op in late[:1]]
    for order, named in stuck:
        idea = "nobody can move and ops are left: that is a deadlock, and each stuck op is named"
        expect_error(ValueError, lab.replay, order, mentions=named, idea=idea)
    legal = [ops(f"0F{i}"), ops(f"1F{i}"), ops(f"2F{i} 2B{i}")]
    expect_grid(lab.replay(legal), earliest_grid(legal))


@pytest.mark.points(4)
def test_one_f_one_b_order__is_what_torch_runs(lab):
    """1F1B, op for op as torch runs it; a rank holds at most {p - r} activations, not m."""
    idea = "rank r runs stage r: forwards until the first gradient can come back, then pairs, then "
    idea += "what is left"
    captures = torch_orders("1F1B runtime")
    assert len(captures) == 15
    for capture in captures:
        expect_order(lab.one_f_one_b_order(capture["p"], capture["m"]), capture["order"], idea)
    for p, m in [*sizes(), (5, 2)]:  # torch refuses m < p
        rooms = [(ops_of("F", [rank], m), ops_of("B", [rank], m), p - rank) for rank in range(p)]
        expected = [as_memory_allows(*room) for room in rooms]
        expect_order(lab.one_f_one_b_order(p, m), expected, idea)


@pytest.mark.points(4)
def test_interleaved_order__is_what_torch_runs(lab):
    """Interleaved 1F1B, op for op as torch runs it, in 30 sizes and more."""
    idea = "rank r holds the stages r, r + p, ...; groups of p microbatches, chunk by chunk; a "
    idea += "warm-up as long as the docstring counts; then pairs of F and B, then what is left"
    captures = torch_orders("Interleaved1F1B")
    assert len(captures) == 30
    for capture in captures:
        order = lab.interleaved_order(capture["p"], capture["m"], capture["v"])
        expect_order(order, capture["order"], idea)
    alone = [ops("0F0 1F0 1B0 0F1 0B0 1F1 1B1 0B1")]
    for _ in range(2):
        expect_order(lab.interleaved_order(1, 2, 2), alone, idea)
    rng = random.Random(10)
    for p, v in product((1, rng.randint(2, 5), rng.randint(6, 9)), (2, rng.randint(3, 6))):
        groups = rng.randint(1, 3)
        expected = interleaved_as_memory_allows(p, groups * p, v)
        expect_order(lab.interleaved_order(p, groups * p, v), expected, idea)


@pytest.mark.points(2)
def test_peak_live_activations__counts_what_is_held_at_once(lab):
    """1F1B holds {p - r} activations on rank r where GPipe holds m."""
    idea = "an activation lives from its F's start to its B's end; a rank without ops holds 0"
    orders = [
        [ops("0F0 0B0 0F1 0F2 0B1 0F3 0F4 0B2 0B3 0B4")],  # 1, then 2, then 3
        [ops("0F0 0B0 0F1 0B1"), ops("1F0 1F1 1B0 1B1")],
    ]
    rng = random.Random(4)
    for places in ([0, 1, 1, 0], [0, 3, 2], [0]):
        dealt = dealt_order(places, 4, rng)
        orders += [dealt, [row[: rng.randint(1, 7)] for row in dealt]]  # all, and a run cut short
    captures = small(torch_orders("GPipe", "1F1B runtime", "LoopedBFS", "Interleaved1F1B"))
    for order in orders + [capture["order"] for capture in captures]:
        held = [accumulate((1 if op[0] == "F" else -1 for op in row), initial=0) for row in order]
        expect_equal(lab.peak_live_activations(order), list(map(max, held)), idea=idea)


@pytest.mark.points(3)
def test_audit_order__says_who_is_right(lab):
    """Torch's published 1F1B list disagrees with you on the last rank."""
    captures = torch_orders("1F1B")
    assert len(captures) == 15
    for capture in captures:
        p, m, order = capture["p"], capture["m"], capture["order"]
        findings = {"missing": [("F", p - 1, 0)], "unknown": [("F", p - 1, m)], "repeated": []}
        expect_findings(lab.audit_order(order, p, m), findings)
    clean = {"missing": [], "unknown": [], "repeated": []}
    for capture in small(torch_orders("1F1B runtime", "Interleaved1F1B")):
        num_stages = capture["p"] * capture["v"]
        expect_findings(lab.audit_order(capture["order"], num_stages, capture["m"]), clean)
    rng = random.Random(11)
    for places in ([0, 0], [0, 1, 1, 0], [0, 1, 2]):
        num_stages, m = len(places), rng.randint(2, 6)
        order = dealt_order(places, m, rng)
        missing, twice = rng.sample([op for row in order for op in row], 2)
        stranger = (rng.choice("FB"), rng.randrange(9), m + rng.randrange(9))
        order = [[op for op in row if op != missing] for row in order]
        rng.choice(order).append(twice)
        rng.choice(order).insert(0, stranger)
        findings = {"missing": [missing], "unknown": [stranger], "repeated": [twice]}
        expect_findings(lab.audit_order(order, num_stages, m), findings)
    all_due = " ".join(f"0{kind}{i}" for kind in "BF" for i in range(11))  # 10 comes after 2
    by_hand = [
        (
            ([ops("0F0 0W0 0F0 0B0 2F0 0F0"), ops("1B0 -1F0 1B0 1B7 0B-1")], 2, 1),
            {"missing": "1F0", "unknown": "0B-1 1B7 -1F0 2F0 0W0", "repeated": "1B0 0F0"},
        ),
        # on another rank than the first, twice what nobody asked for, and in another order
        (
            ([ops("1B1 1F1 9F10 1F0"), ops("9F9 0F0 9F9 1B0"), ops("9F10 0F1 0B1 0B0 1B1")], 2, 2),
            {"missing": "", "unknown": "9F9 9F10", "repeated": "1B1 9F9 9F10"},
        ),
        (([[], []], 1, 11), {"missing": all_due, "unknown": "", "repeated": ""}),
    ]
    for arguments, findings in by_hand:
        expected = {key: ops(text) for key, text in findings.items()}
        expect_findings(lab.audit_order(*arguments), expected)


@pytest.mark.points(2)
def test_span_bubble__is_the_other_bubble(lab):
    """One ZBV grid, two bubbles: {1/17} of the window, {0} of the span."""
    (zbv,) = (c for c in torch_orders("ZBVZeroBubble") if (c["p"], c["m"]) == (4, 8))
    grid = earliest_grid(zbv["order"])
    assert window_bubble(grid) == Fraction(1, 17)
    idea = "ranks start and end at different times, but none pauses in between"
    expect_equal(lab.span_bubble(grid), Fraction(0), idea=idea)
    idle = [None] * 5
    grids = [
        [[None, 0, None, 1, None], idle],
        [[0, 1, None, None, 2], idle],
        [["", None, False], ["a", "a", "a"]],
        [[0] * 4001 + [None, 0]],
        [[0, 1, None], [0, None, 1]],
        [[0, None, None, None, 1], [0, 1, 2, 3, None]],
    ]
    rng = random.Random(4)
    for rows, width in [(1, 6), (3, 5), (3, 5), (3, 5), (2, 12), (2, 12), (6, 4), (6, 4)]:
        cells = [[rng.choice([None, None, 0, 1]) for _ in range(width)] for _ in range(rows)]
        grids.append([[0] + cells[0][1:], *cells[1:]])
    for grid in grids:
        rows = ["".join(".x"[cell is not None] for cell in row).strip(".") for row in grid]
        span, work = max(map(len, rows)), max(row.count("x") for row in rows)
        idea = (
            f"of all ranks the longest span is {span}, and the most work {work}: what is not None"
        )
        expect_equal(lab.span_bubble(grid), Fraction(span - work, span), idea=idea)


@pytest.mark.points(1)
@pytest.mark.waits_for(
    "test_replay__starts_an_op_when_its_inputs_are_there",
    "test_one_f_one_b_order__is_what_torch_runs",
    "test_interleaved_order__is_what_torch_runs",
    "test_peak_live_activations__counts_what_is_held_at_once",
    "test_audit_order__says_who_is_right",
    "test_span_bubble__is_the_other_bubble",
)
def test_span_bubble__and_tasks_8_to_12_refuse_bad_input(lab):
    """Tasks 8 to 13 refuse bad input by name and value."""
    expect_refusals(lab, refused_stretch())


# --- sizes ----------------------------------------------------------------------------------------


def sizes():
    """(p, m): one stage, one microbatch, fewer microbatches than stages, and drawn ones."""
    rng = random.Random(2)
    drawn = [(rng.randint(2, 9), rng.randint(2, 16)) for _ in range(5)]
    return [(1, 1), (1, 5), (2, 1), (5, 2), *drawn]


def sweep():
    """(p, m) up to 16 and 128: the ends, and some between them."""
    rng = random.Random(3)
    between = range(3, 128)
    return [(p, m) for p in range(1, 17) for m in (1, 2, *sorted(rng.sample(between, 9)), 128)]


# --- words ----------------------------------------------------------------------------------------


def expect(condition, told):
    """Fail with a sentence about what the last call returned."""
    if not condition:
        raise Unexpected(f"{told}.")


def counted(number, what, more="s", one=""):
    """`1 hop`, `2 hops`."""
    return f"{number} {what}{one if number == 1 else more}"


def expect_exact(actual, expected, idea=""):
    """expect_equal for a number or a dict of them; 19 may be an int or a Fraction, not a float."""

    def as_type_of(value, number):
        if type(value) is Fraction:
            return Fraction(number)
        return int(number) if type(value) is int and number == int(number) else number

    if isinstance(expected, dict) and isinstance(actual, dict):
        expected = {key: as_type_of(actual.get(key), value) for key, value in expected.items()}
    else:
        expected = as_type_of(actual, expected)
    expect_equal(actual, expected, idea=idea)


def expect_seconds(actual, expected, idea):
    """The exact number, or a float that is as near as floats come."""
    if isinstance(actual, float):  # numpy's too
        expect_close(actual, float(expected), atol=1e-12 * float(expected), idea=idea)
    else:
        expect_exact(actual, expected, idea=idea)


def expect_bill(bill, plan):
    """The bill of a plan, entry by entry; the idea is that of the first wrong one."""
    expected = rank_by_rank_bill(*plan)
    tp_size, pp_size, gpus, num_layers, hidden_size, tokens, m, bytes_per_value = plan
    steps, nodes = 4 * num_layers * (tp_size - 1), max(1, tp_size // gpus)
    leaving = (expected["node_hops"] - steps) if nodes > 1 else expected["node_hops"]
    ring = (
        f"{steps} ring steps (2 all-reduces in each of all {num_layers} layers, 2 x {tp_size - 1}"
    )
    where = (
        f"each leave a node: a stage lies over {nodes} nodes" if nodes > 1 else "all stay in a node"
    )
    cross = f"of {counted(pp_size - 1, 'boundar', 'ies', 'y')} {leaving} leave a node"
    hops = f"{ring} steps each) {where}; {cross}"
    if tp_size == 1:
        hops = f"one rank of TP reduces with nobody; {cross}"
    hops += ", of one microbatch"
    ideas = {
        "num_nodes": f"{counted(tp_size * pp_size, 'rank')} on nodes of {counted(gpus, 'GPU')}",
        "bubble": f"that of {counted(pp_size, 'stage')} and {counted(m, 'microbatch', 'es')}",
        "activation_bytes": f"tokens ({tokens}) x hidden_size ({hidden_size}) x bytes_per_value "
        f"({bytes_per_value})",
        "local_hops": hops,
        "node_hops": hops,
        "bytes_between_nodes": f"{hops}; in a ring step over k nodes k messages of "
        f"activation_bytes / {tp_size} leave, a boundary hands on one activation in all",
    }
    if not isinstance(bill, dict) or bill.keys() != expected.keys():
        expect_exact(bill, expected)
    for name, value in expected.items():
        expect_exact({name: bill[name]}, {name: value}, idea=ideas[name])


def expect_rows(grid, p):
    """p rows of one length >= 1; asserted first: no loop may run over nothing."""
    rows = isinstance(grid, (list, tuple)) and len(grid) == p
    rows = rows and all(isinstance(row, (list, tuple)) for row in grid)
    want = f"expected a list of {counted(p, 'row')} (a list each), one per stage"
    expect(rows, f"returned {brief(grid)}, {want}")
    expect(
        len({id(row) for row in grid}) == p,
        f"several rows are one and the same list, as [[None] * n] * {p} makes them: writing into "
        "one writes into all. Make each row on its own",
    )
    widths = {len(row) for row in grid}
    expect(
        len(widths) == 1 and widths != {0},
        f"the rows have {sorted(widths)} ticks; all need the same number, 1 or more",
    )


FINDINGS = {
    "missing": "ops that are due and stand on no rank",
    "unknown": "ops that stand on a rank and are not due",
    "repeated": "ops that stand there more than once, on whichever ranks, due or not",
}


def expect_findings(actual, expected):
    """What audit_order found, key by key; the idea is that of the first wrong one."""
    if not isinstance(actual, dict) or actual.keys() != expected.keys():
        expect_equal(actual, expected)
    for key, found in expected.items():
        mine = isinstance(actual[key], (list, tuple)) and {*map(repr, actual[key])}
        idea = "sorted, each op once" if mine == {*map(repr, found)} else FINDINGS[key]
        expect_equal(actual[key], found, idea=idea, part=f"[{key!r}]")


def expect_order(actual, expected, idea=""):
    """The same ops on every rank; the first difference is told as rank, place and op."""
    expect_lists(actual, expected, "rank {rank} runs {got} as op number {place}", idea)
    for row in actual:
        if isinstance(row, list):  # a tuple cannot be spoiled
            row[:] = ["what the caller wrote"]  # an order handed out is the caller's own


def expect_grid(actual, expected, idea=""):
    """The same op in every tick of every rank; the first difference is told with its tick."""
    ends = "rows have one length, and the last tick is that in which the last op ends"
    expect_lists(actual, expected, "rank {rank} runs {got} in tick {place}", idea, ends)


def expect_lists(actual, expected, told, idea, ends=""):
    """ends: what to look at where a row is too short or too long."""
    rows = isinstance(actual, (list, tuple))
    rows = rows and all(isinstance(row, (list, tuple)) for row in actual)
    lists = counted(len(expected), "list")
    what = f"returned {brief(actual)}, expected a list of {lists}, one per rank"
    expect(rows and len(actual) == len(expected), what)
    actual = [[tuple(op) if isinstance(op, list) else op for op in row] for row in actual]
    if actual == expected:
        return
    for rank, (row, right) in enumerate(zip(actual, expected, strict=True)):
        for place in range(max(len(row), len(right))):
            got, due = row[place : place + 1], right[place : place + 1]
            if got != due:
                text = told.format(rank=rank, got=in_words(got), place=place)
                if ends and not got:
                    text = f"rank {rank}'s row ends before tick {place}"
                with drawn(actual, expected, "rank"):
                    why = ends if ends and not (got and due) else idea
                    again = f" Look again at: {why}." if why else ""
                    raise Unexpected(f"{text}, expected {in_words(due)}.{again}")


def drawn(grid, right, row="stage"):
    """A failure inside draws both grids, the first cell that differs marked in them."""
    return beside(grid, right, row, short)


def short(cell):
    """`0F2` for an op, `2` for a microbatch, `.` for nothing."""
    if cell is None:
        return "."
    op = isinstance(cell, tuple) and len(cell) == 3
    return f"{cell[1]}{cell[0]}{cell[2]}" if op else f"{cell}"[:6]


def in_words(cell):
    """`F of microbatch 1 on stage 3`, from a list of no op, of None or of one op."""
    if not cell:
        return "no more"
    if cell == [None]:
        return "nothing (None)"
    if not isinstance(cell[0], tuple) or len(cell[0]) != 3:
        return f"{brief(cell[0])}, which is no (kind, stage, microbatch)"
    kind, stage, microbatch = cell[0]
    return f"{kind} of microbatch {microbatch} on stage {stage}"


# --- bubbles and times, found another way -----------------------------------------------------


def window_bubble(grid):
    return Fraction(sum(row.count(None) for row in grid), len(grid) * len(grid[0]))


def forward_grid(p, m):
    """Stage s runs microbatch i one tick after stage s - 1 did, and after microbatch i - 1."""
    tick = {}
    for stage, i in product(range(p), range(m)):
        tick[stage, i] = max(tick.get((stage - 1, i), -1), tick.get((stage, i - 1), -1)) + 1
    grid = [[None] * (max(tick.values()) + 1) for _ in range(p)]
    for (stage, i), at in tick.items():
        grid[stage][at] = i
    return grid


@cache
def counted_bubble(p, m):
    """Idle share by walking the cells: stage s can only be busy in ticks s .. s + m - 1."""
    window = range(p + m - 1)
    busy = sum(stage <= tick < stage + m for stage in range(p) for tick in window)
    return 1 - Fraction(busy, p * len(window))


def fewest(p, budget, strict):
    """The first m that keeps the budget, of all m from 1 on."""
    m = 1
    while counted_bubble(p, m) > budget or strict and counted_bubble(p, m) == budget:
        m += 1
    return m


def longest_path(stage_s, m, hop_s):
    """The slowest chain of work that must happen in sequence: every staircase from the first
    microbatch on the first stage to the last microbatch on the last stage."""
    p, unit = len(stage_s), math.lcm(*(s.denominator for s in (*stage_s, hop_s)))
    stage_s, hop_s = [int(s * unit) for s in stage_s], int(hop_s * unit)  # exact, and fast
    longest = 0
    for turns in combinations(range(m + p - 2), p - 1):  # the steps that go to the next stage
        stage, total = 0, stage_s[0]
        for step in range(m + p - 2):
            if step in turns:
                stage, total = stage + 1, total + hop_s
            total += stage_s[stage]
        longest = max(longest, total)
    return Fraction(longest, unit)


def decode_loop_rate(p, in_flight, model_s, hop_s):
    """Play the loop: who left the last stage goes back to stage 0. Count the second half."""
    rounds, unit = 8, math.lcm((model_s / p).denominator, hop_s.denominator)
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


# --- a plan, message by message ---------------------------------------------------------------


def rank_by_rank_bill(
    tp_size, pp_size, gpus_per_node, num_layers, hidden_size, tokens, m, bytes_per_value
):
    """Place every rank on a node and follow each message of one microbatch."""

    def node(stage, tp_rank):
        return (stage * tp_size + tp_rank) // gpus_per_node

    activation = tokens * hidden_size * bytes_per_value
    hops = {True: 0, False: 0}  # does the slowest link of a step leave its node?
    crossings = 0  # messages that leave a node; each is one rank's share of an activation
    # all stages are placed alike, so stage 0 stands for the all-reduces of all layers
    if tp_size > 1:
        leaves = sum(node(0, r) != node(0, (r + 1) % tp_size) for r in range(tp_size))
        for _ in range(2 * num_layers):
            for _ in range(2 * (tp_size - 1)):  # ring steps: every rank sends 1/tp to its neighbour
                hops[leaves > 0] += 1
                crossings += leaves
    for stage in range(pp_size - 1):
        leaves = sum(node(stage, r) != node(stage + 1, r) for r in range(tp_size))
        hops[leaves > 0] += 1
        crossings += leaves
    return {
        "num_nodes": 1 + node(pp_size - 1, tp_size - 1),
        "bubble": counted_bubble(pp_size, m),
        "activation_bytes": activation,
        "local_hops": hops[False],
        "node_hops": hops[True],
        "bytes_between_nodes": crossings * Fraction(activation, tp_size),
    }


# --- orders: torch 2.13.0's, kept as data (torch_orders.py made them), and others -----------------

OP = re.compile(r"(-?\d+)([FBIW])(-?\d+)")  # stage, kind, microbatch


@cache
def op_in(word):
    op = OP.fullmatch(word)
    return op and (op[2], int(op[1]), int(op[3]))


def ops(text):
    """'2F7 .' -> [("F", 2, 7), None]; whatever is no op, such as torch's REDUCE_GRAD, is None."""
    return [op_in(word) for word in text.split()]


@cache
def torch_orders(*schedules):
    """The captured orders of these schedules, in order of size.

    Torch's dots are decoration for its visualiser and REDUCE_GRAD is no microbatch's op: left out.
    """
    captures = json.loads((HERE / "captures" / "torch-schedules" / "orders.json").read_text())
    chosen = []
    for row in captures:
        if row["schedule"] in schedules:
            order = [[op for op in ops(rank) if op is not None] for rank in row["ranks"]]
            chosen.append(row | {"order": order})
    return chosen


def small(captures):
    """Those of up to 4 ranks: enough where every op is looked at, and four times as fast."""
    return [capture for capture in captures if capture["p"] <= 4]


def ops_of(kind, stages, m):
    return [(kind, stage, i) for stage in stages for i in range(m)]


def as_memory_allows(forwards, backwards, room):
    """One rank with room for so many activations: forwards while there is room, else backwards."""
    forwards, backwards, ran, live = list(forwards), list(backwards), [], 0
    while backwards:
        kind = forwards if forwards and live < room else backwards
        ran.append(kind.pop(0))
        live += 1 if kind is forwards else -1
    return ran


def interleaved_as_memory_allows(p, m, v):
    """Interleaved 1F1B by sorting ops and walking microbatch 0 to the last stage and back."""
    order = []
    for rank in range(p):
        stages = range(rank, p * v, p)
        forwards = sorted(ops_of("F", stages, m), key=lambda op: (op[2] // p, op[1], op[2]))
        backwards = sorted(ops_of("B", stages, m), key=lambda op: (op[2] // p, -op[1], op[2]))
        there_and_back = 2 * len(range(stages[-1], p * v - 1))
        room = forwards.index(("F", stages[-1], 0)) + there_and_back + 1
        order.append(as_memory_allows(forwards, backwards, room))
    return order


def inputs_of(op, held):
    """The ops, of those that somebody holds, whose results `op` reads."""
    kind, stage, i = op
    if kind == "F":
        needs = [("F", stage - 1, i)]
    elif kind == "W":
        needs = [("I", stage, i)]
    else:
        needs = [("F", stage, i), (kind, stage + 1, i)]
    return [need for need in needs if need in held]


def dealt_order(places, m, rng):
    """An order that can finish: legal steps in random succession; places: the rank of a stage."""
    left = [(kind, stage, i) for kind in "FB" for stage in range(len(places)) for i in range(m)]
    order = [[] for _ in range(max(places) + 1)]
    while left:
        op = rng.choice([op for op in left if not inputs_of(op, left)])
        left.remove(op)
        order[places[op[1]]].append(op)
    return order


def earliest_grid(order, forward_ticks=1, backward_ticks=2):
    """When each op runs if nobody waits without a reason: sort all needs, then add up.

    A backward may come in two halves of one tick: I (for the input) and W (for the weights).
    """
    ticks = {"F": forward_ticks, "B": backward_ticks, "I": 1, "W": 1}
    held = {op for rank_ops in order for op in rank_ops}
    before = {op: inputs_of(op, held) for op in held}  # op -> the ops that must have finished
    for rank_ops in order:
        for earlier, op in pairwise(rank_ops):
            before[op].append(earlier)
    finish = {}
    for op in TopologicalSorter(before).static_order():
        finish[op] = max((finish[need] for need in before[op]), default=0) + ticks[op[0]]
    grid = [[None] * max(finish.values()) for _ in order]
    for row, rank_ops in zip(grid, order, strict=True):
        for op in rank_ops:
            row[finish[op] - ticks[op[0]] : finish[op]] = [op] * ticks[op[0]]
    return grid


# --- bad input ------------------------------------------------------------------------------------
#
# Per function: a call that is right, and calls that are refused by a ValueError which names the
# argument and its value.


def refused():
    rng = random.Random(12)
    p, m, below = rng.randint(2, 9), rng.randint(2, 9), rng.randint(-9, -1)
    model_s, hop_s, negative_s = (rng.randint(*ends) / 8 for ends in ((1, 99), (0, 99), (-99, -1)))
    stages = [Fraction(rng.randint(1, 9)) for _ in range(p)]
    budgets = 0.0, 1.0, negative_s, 1 + model_s, rng.randint(2, 99)

    def rate(count):
        return [
            (p, m, model_s, hop_s),
            ((p, below, model_s, hop_s), count, below),
            ((0, m, model_s, hop_s), "p", 0),
            ((p, m, negative_s, hop_s), "model_s", negative_s),
            ((p, m, model_s, negative_s), "hop_s", negative_s),
        ]

    return {
        "bubble_fraction": [(p, m), ((0, m), "p", 0), ((p, below), "m", below)],
        "schedule_grid": [(p, m), ((below, m), "p", below), ((p, 0), "m", 0)],
        "grid_bubble": [([[None, 0]],), *bad_grids(rng)],
        "min_microbatches": [
            (p, 0.1),
            ((0, 0.1), "p", 0),
            *(((p, budget), "budget", budget) for budget in budgets),
        ],
        "latency_s": [
            (p, model_s, hop_s),
            ((below, model_s, hop_s), "p", below),
            ((p, 0.0, hop_s), "model_s", 0.0),
            ((p, model_s, negative_s), "hop_s", negative_s),
        ],
        "throughput_per_s": rate("m"),
        "decode_steps_per_s": rate("in_flight"),
        "makespan_s": [
            (stages, m),
            (([], m), "stage_s"),
            (([*stages, Fraction(0)], m), "stage_s"),
            ((stages, below), "m", below),
            ((stages, m, negative_s), "hop_s", negative_s),
        ],
        "plan_bill": refused_plans(rng, m, below),
    }


def refused_plans(rng, m, below):
    plan = {
        "tp_size": 4,
        "pp_size": rng.randint(1, 9),
        "gpus_per_node": 8,
        "num_layers": rng.randint(9, 40),
        "hidden_size": rng.randint(1, 99),
        "tokens": rng.randint(1, 99),
        "m": m,
    }
    too_many = plan["num_layers"] + rng.randint(1, 9)

    def plans(name, *values):
        return [(tuple((plan | {name: value}).values()), name, value) for value in values]

    return [
        tuple(plan.values()),
        *(bad for name in plan for bad in plans(name, 0, below)),
        ((*plan.values(), below), "bytes_per_value", below),
        *plans("pp_size", too_many),
        *plans("tp_size", rng.choice((3, 5, 6, 7)), rng.randint(9, 15)),
    ]


def refused_stretch():
    rng = random.Random(13)
    p, v, below = rng.randint(2, 6), rng.randint(2, 5), rng.randint(-9, 0)
    i, uneven = rng.randrange(9), p * rng.randint(1, 5) + rng.randint(1, p - 1)
    order = [[("F", 0, i), ("B", 0, i)]]
    return {
        "replay": [
            (order,),
            (([],), "order"),
            (([[], []],), "order"),
            (([[("F", 0, i), (rng.choice("GXf"), 0, i)]],), "order"),
            ((order, below, 2), "forward_ticks", below),
            ((order, 1, below), "backward_ticks", below),
        ],
        "one_f_one_b_order": [(p, p), ((below, p), "p", below), ((p, below), "m", below)],
        "interleaved_order": [
            (p, p * v, v),
            ((-v, v * p, v), "p", -v),
            ((p, -v * p, v), "m", -v * p),
            ((p, p, 1), "v", 1),
            ((p, uneven, v), "m", uneven),
            ((p, 1, v), "m", 1),
        ],
        "peak_live_activations": [(order,), (([],), "order")],
        "audit_order": [
            (order, 1, i + 1),
            ((order, below, 1), "num_stages", below),
            ((order, 1, below), "m", below),
        ],
        "span_bubble": [([[None, i]],), *bad_grids(rng), (([[None] * p] * p,), "grid")],
    }


def bad_grids(rng):
    """No rows, rows without cells, rows of different lengths."""
    rows, width = rng.randint(1, 9), rng.randint(1, 9)
    ragged = [[0] * width] * rows + [[0] * (width + 1)]
    return [(([],), "grid"), (([[]] * rows,), "grid"), ((ragged,), "grid")]


def expect_refusals(lab, table):
    chance = random.Random(14)  # where among the others the right calls come
    for name, (legal, *refused) in table.items():
        calls = [*refused, None, None]
        for call in chance.sample(calls, len(calls)):
            if call is None:
                right = getattr(lab, name)(*legal) is not None
                expect(right, "returned None for a call that is right")
            else:
                arguments, *mentions = call
                expect_error(ValueError, getattr(lab, name), *arguments, mentions=mentions)
