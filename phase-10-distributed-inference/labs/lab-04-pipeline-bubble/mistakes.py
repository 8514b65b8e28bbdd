"""Plausible mistakes of lab 04. See labkit/mistakes/ for how the bank is used."""

import functools


def _guarded(wrong):
    """The mistake, after the solution's function has refused bad input: that is another matter."""
    right = globals()[wrong.__name__.split("__")[0]]

    @functools.wraps(wrong)
    def mistake(*arguments, **keywords):
        right(*arguments, **keywords)
        return wrong(*arguments, **keywords)

    return mistake


_right_grid = schedule_grid


# --- the bubble ---------------------------------------------------------------------------------


@_guarded
def bubble_fraction__p_over_p_plus_m(p, m):
    """the bubble is taken as p / (p + m).

    p stages have p - 1 hand-overs to wait for, and the window has p + m - 1 ticks; counting stages
    instead of gaps is the fence-post error of this lab.

    Rejected by: test_bubble_fraction__is_the_exact_idle_share
    """
    return Fraction(p, p + m)


@_guarded
def bubble_fraction__over_ideal_time(p, m):
    """the p - 1 idle ticks are divided by the m ticks of work instead of the whole window.

    (p-1)/m is a real quantity, the bubble time as a fraction of the ideal time (arXiv 2104.04473).
    It is an overhead, it can exceed 1, and it is not the idle share of the window.

    Rejected by: test_bubble_fraction__is_the_exact_idle_share
    """
    return Fraction(p - 1, m)


@_guarded
def bubble_fraction__p_and_m_swapped(p, m):
    """stages and microbatches change places.

    (m-1)/(p+m-1) grows with more microbatches; a bubble shrinks.

    Rejected by: test_bubble_fraction__is_the_exact_idle_share
    """
    return Fraction(m - 1, p + m - 1)


@_guarded
def bubble_fraction__busy_share(p, m):
    """the busy share is returned instead of the idle one.

    m/(p+m-1) is the efficiency; the bubble is what is missing to 1.

    Rejected by: test_bubble_fraction__is_the_exact_idle_share
    """
    return Fraction(m, p + m - 1)


@_guarded
def bubble_fraction__float(p, m):
    """the fraction is rounded to a float.

    7/70 as a float is not one tenth; a budget of exactly 10% can no longer be tested.

    Rejected by: test_bubble_fraction__is_the_exact_idle_share
    """
    return (p - 1) / (p + m - 1)


def bubble_fraction__unchecked(p, m):
    """p and m below 1 are computed with instead of refused.

    p=0 gives a negative bubble; a caller's bug becomes a plausible number.

    Rejected by: test_plan_bill__and_tasks_1_to_6_refuse_bad_input
    """
    return Fraction(p - 1, p + m - 1)


@_guarded
def schedule_grid__empty(p, m):
    """the grid has no ticks at all.

    A test that only loops over cells would praise it: no cell breaks a rule.

    Rejected by: test_schedule_grid__runs_every_microbatch_in_order
    """
    return [[] for _ in range(p)]


@_guarded
def schedule_grid__one_tick_too_many(p, m):
    """the window is p + m ticks: one idle column too many at the end.

    The last microbatch leaves the last stage with tick p + m - 2, counted from 0.

    Rejected by: test_schedule_grid__starts_none_early_or_late
    """
    return [[*row, None] for row in _right_grid(p, m)]


@_guarded
def schedule_grid__one_tick_too_few(p, m):
    """the window is p + m - 2 ticks, so the last stage never runs the last microbatch.

    m ticks of work and p - 1 of waiting: the last tick is p + m - 2, their number is one more.

    Rejected by: test_schedule_grid__runs_every_microbatch_in_order
    """
    return [row[: max(1, p + m - 2)] for row in _right_grid(p, m)]


@_guarded
def schedule_grid__sees_this_tick(p, m):
    """a stage uses what the stage before it finishes in the same tick, so nobody ever waits.

    An activation exists when the tick that computes it is over. Going through the stages from first
    to last while updating in place lets a microbatch fall through all of them at once.

    Rejected by: test_schedule_grid__starts_none_early_or_late
    """
    return [list(range(m)) for _ in range(p)]


@_guarded
def schedule_grid__one_at_a_time(p, m):
    """the next microbatch enters only after the last one left the pipeline.

    That is model parallelism without a pipeline: stage 0 is free again after one tick.

    Rejected by: test_schedule_grid__starts_none_early_or_late
    """
    return [
        [tick // p if tick % p == stage else None for tick in range(p * m)] for stage in range(p)
    ]


@_guarded
def schedule_grid__transposed(p, m):
    """rows are ticks and columns are stages.

    grid[stage][tick]: one row per stage, as every picture of a pipeline is drawn.

    Rejected by: test_schedule_grid__runs_every_microbatch_in_order
    """
    return [list(tick) for tick in zip(*_right_grid(p, m), strict=True)]


@_guarded
def schedule_grid__last_in_first_out(p, m):
    """every stage runs the microbatches in reverse order.

    Same window, same bubble, but microbatch 0, the request that came first, leaves last.

    Rejected by: test_schedule_grid__runs_every_microbatch_in_order
    """
    return [[None if i is None else m - 1 - i for i in row] for row in _right_grid(p, m)]


@_guarded
def grid_bubble__microbatch_zero_is_idle(grid):
    """microbatch 0 counts as idle, because 0 is false in Python.

    Idle is None; test for it with `is None`.

    Rejected by: test_grid_bubble__counts_the_idle_cells
    """
    return Fraction(sum(not cell for row in grid for cell in row), len(grid) * len(grid[0]))


@_guarded
def grid_bubble__of_the_first_stage(grid):
    """only the first stage's row is counted.

    In a fill-drain grid all rows idle alike; in any other grid they do not.

    Rejected by: test_grid_bubble__counts_the_idle_cells
    """
    return Fraction(grid[0].count(None), len(grid[0]))


@_guarded
def grid_bubble__closed_formula(grid):
    """the formula of a fill-drain grid is worked out from the grid's size, and no cell is counted.

    It holds for the one grid it was derived for. Counting holds for any, so that it can prove the
    formula, and find the bubble of a schedule that has none.

    Rejected by: test_grid_bubble__counts_the_idle_cells
    """
    return Fraction(len(grid) - 1, len(grid[0]))


@_guarded
def grid_bubble__uses_up_the_rows(grid):
    """idle cells are taken out of the grid while they are counted.

    The number is right, and the caller's grid is gone: what is drawn or counted next is shorter.

    Rejected by: test_grid_bubble__counts_the_idle_cells
    """
    cells, idle = len(grid) * len(grid[0]), 0
    for row in grid:
        while None in row:
            row.remove(None)
            idle += 1
    return Fraction(idle, cells)


@_guarded
def grid_bubble__idle_over_busy(grid):
    """idle cells are divided by busy cells.

    The denominator of the bubble is the whole window: a share of it, not a ratio within it.

    Rejected by: test_grid_bubble__counts_the_idle_cells
    """
    idle = sum(cell is None for row in grid for cell in row)
    return Fraction(idle, max(1, len(grid) * len(grid[0]) - idle))


def grid_bubble__empty_is_zero(grid):
    """a grid without cells has the bubble 0.

    Nothing ran, so nothing can be said; a broken generator would look perfect.

    Rejected by: test_plan_bill__and_tasks_1_to_6_refuse_bad_input
    """
    cells = [cell for row in grid for cell in row]
    return Fraction(cells.count(None), max(1, len(cells)))


# --- the budget ---------------------------------------------------------------------------------


@_guarded
def min_microbatches__always_strict(p, budget, strict=False):
    """the bubble must be strictly under the budget although `strict` is False.

    8 stages with 63 microbatches idle exactly 10%: that keeps a budget of 10%.

    Rejected by: test_min_microbatches__is_the_fewest
    """
    return max(1, floor((p - 1) * (1 / Fraction(str(budget)) - 1)) + 1)


@_guarded
def min_microbatches__never_strict(p, budget, strict=False):
    """`strict` is ignored: exactly the budget passes as under it.

    "Under 10%" with 8 stages needs 64 microbatches, 63 give 10% on the nose.

    Rejected by: test_min_microbatches__is_the_fewest
    """
    return max(1, ceil((p - 1) * (1 / Fraction(str(budget)) - 1)))


@_guarded
def min_microbatches__binary_float(p, budget, strict=False):
    """the budget is taken as the binary value of the float, not as the decimal it is written as.

    0.1 is stored as 0.1000000000000000055, so 7/70 counts as strictly under it, and 0.3 is stored a
    hair below three tenths, so 3/10 counts as over it.

    Rejected by: test_min_microbatches__is_the_fewest
    """
    least = (p - 1) * (1 / Fraction(budget) - 1)
    return max(1, floor(least) + 1 if strict else ceil(least))


@_guarded
def min_microbatches__float_bubble(p, budget, strict=False):
    """the bubble is rounded to a float before it is compared with the budget.

    7/70 as a float is a hair above one tenth, so 63 microbatches seem to miss a budget of 1/10.

    Rejected by: test_min_microbatches__is_the_fewest
    """
    m = 1
    while (bubble := (p - 1) / (p + m - 1)) > budget or (strict and bubble == budget):
        m += 1
    return m


@_guarded
def min_microbatches__float_division(p, budget, strict=False):
    """m is computed in floats, whose rounding the ceiling then makes a whole microbatch.

    9 x (1 / 0.6 - 1) is 6.000000000000001 in floats: one microbatch too many.
    Rejected by: test_min_microbatches__is_the_fewest
    """
    require(p=p, budget=budget)
    least = (p - 1) * (1 / float(budget) - 1)
    return max(1, floor(least) + 1 if strict else ceil(least))


def min_microbatches__rounded_budget(p, budget, strict=False):
    """the budget is rounded to a fraction with a denominator of at most 1000.

    0.1 becomes 1/10, as it should, but 0.0015 becomes 1/667 and 1/1500 becomes 1/1000.
    Fraction(str(budget)) is the decimal as it is written.

    Rejected by: test_min_microbatches__is_the_fewest
    """
    least = (p - 1) * (1 / Fraction(budget).limit_denominator(1000) - 1)
    return max(1, floor(least) + 1 if strict else ceil(least))


@_guarded
def min_microbatches__rounded_down(p, budget, strict=False):
    """the solution for m is rounded down, so the bubble stays over the budget.

    Microbatches are whole; the last fraction of one must be paid for with a whole one.

    Rejected by: test_min_microbatches__is_the_fewest
    """
    least = floor((p - 1) * (1 / Fraction(str(budget)) - 1))
    return max(1, least + 1 if strict else least)


@_guarded
def min_microbatches__of_the_overhead(p, budget, strict=False):
    """the budget limits (p-1)/m, the overhead over ideal time, instead of the bubble.

    It asks for more than needed: 70 instead of 63 for 8 stages at 10%.

    Rejected by: test_min_microbatches__is_the_fewest
    """
    least = (p - 1) / Fraction(str(budget))
    return max(1, floor(least) + 1 if strict else ceil(least))


def min_microbatches__percent(p, budget, strict=False):
    """a budget of 10 is taken for 10 percent.

    One unit, the fraction of the time; a guess about units hides the caller's bug.

    Rejected by: test_plan_bill__and_tasks_1_to_6_refuse_bad_input
    """
    return _right_min(p, budget / 100 if budget > 1 else budget, strict)


_right_min = min_microbatches


# --- what it buys ---------------------------------------------------------------------------------


@_guarded
def latency_s__divided_by_p(p, model_s, hop_s):
    """p stages are p times as fast for one request.

    A request passes every layer, and each stage waits for the one before: only other requests
    fill the time in which a stage is free.

    Rejected by: test_latency_s__gains_nothing_from_stages
    """
    return model_s / p + (p - 1) * hop_s


@_guarded
def latency_s__p_hops(p, model_s, hop_s):
    """p stages have p hops between them.

    Between p stages lie p - 1 boundaries.

    Rejected by: test_latency_s__gains_nothing_from_stages
    """
    return model_s + p * hop_s


@_guarded
def throughput_per_s__without_bubble(p, m, model_s, hop_s):
    """p stages always give p times the throughput.

    That is the limit for many microbatches; a batch of m pays for filling and draining.

    Rejected by: test_throughput_per_s__nears_that_of_p_devices
    """
    return p / model_s


@_guarded
def throughput_per_s__hop_per_microbatch(p, m, model_s, hop_s):
    """every microbatch waits for the hop of the one before.

    A hop delays; it does not occupy a stage. While microbatch 1 travels, microbatch 2 is computed.

    Rejected by: test_throughput_per_s__nears_that_of_p_devices
    """
    return m / (latency_s(p, model_s, hop_s) + (m - 1) * (model_s / p + hop_s))


@_guarded
def throughput_per_s__long_hop_sets_the_pace(p, m, model_s, hop_s):
    """a hop that is longer than a stage holds up the next microbatch.

    A link is no stage: several microbatches can be on their way at once, so a hop delays each of
    them and slows none down.

    Rejected by: test_throughput_per_s__nears_that_of_p_devices
    """
    return m / (latency_s(p, model_s, hop_s) + (m - 1) * max(model_s / p, hop_s))


@_guarded
def decode_steps_per_s__always_full(p, in_flight, model_s, hop_s):
    """the stages are taken to be always busy, however few microbatches are in flight.

    A sequence's next token waits for its last one; with one microbatch in flight, p - 1 of p stages
    idle all the time. This is how a pipeline starves at low traffic.

    Rejected by: test_decode_steps_per_s__starves_with_few_in_flight
    """
    return p / model_s


@_guarded
def decode_steps_per_s__full_above_p(p, in_flight, model_s, hop_s):
    """more than p microbatches in flight are taken to keep p stages busy, whatever a hop takes.

    A microbatch that travels keeps no stage busy. The stages are full when in_flight stage times
    cover the latency: from p + p (p-1) hop_s / model_s microbatches on.

    Rejected by: test_decode_steps_per_s__starves_with_few_in_flight
    """
    latency = latency_s(p, model_s, hop_s)
    return p / model_s if in_flight > p else in_flight / latency


@_guarded
def decode_steps_per_s__drains_each_step(p, in_flight, model_s, hop_s):
    """the pipeline is drained after every decoding step.

    Then each step pays the fill-drain bubble; engines keep the loop full and start a microbatch's
    next step when it returns, whatever the others do.

    Rejected by: test_decode_steps_per_s__starves_with_few_in_flight
    """
    return in_flight / (latency_s(p, model_s, hop_s) + (in_flight - 1) * model_s / p)


@_guarded
def makespan_s__mean_stage(stage_s, m, hop_s=0):
    """the mean stage sets the pace.

    Fast stages cannot lend their time to the slow one: they wait for it in every round.

    Rejected by: test_makespan_s__follows_the_slowest_stage
    """
    mean = sum(stage_s) / Fraction(len(stage_s))
    return sum(stage_s) + (m - 1) * mean + (len(stage_s) - 1) * hop_s


@_guarded
def makespan_s__slow_stage_paid_once(stage_s, m, hop_s=0):
    """the slow stage costs its extra time once, not once per microbatch.

    Every one of the m microbatches has to pass it, one after the other.

    Rejected by: test_makespan_s__follows_the_slowest_stage
    """
    return sum(stage_s) + (m - 1) * min(stage_s) + (len(stage_s) - 1) * hop_s


@_guarded
def makespan_s__all_stages_slow(stage_s, m, hop_s=0):
    """every tick of the whole window is as long as the slowest stage.

    While the first microbatch fills the pipeline, the fast stages it meets are fast: only from
    then on does the slow one set the pace.

    Rejected by: test_makespan_s__follows_the_slowest_stage
    """
    return (len(stage_s) + m - 1) * max(stage_s) + (len(stage_s) - 1) * hop_s


@_guarded
def makespan_s__nobody_queues(stage_s, m, hop_s=0):
    """microbatches do not queue at a busy stage: only the first stage's pace counts.

    A stage that takes longer than the one before it builds a queue. Each microbatch then starts
    when the stage is free, not when it arrives.

    Rejected by: test_makespan_s__follows_the_slowest_stage
    """
    return sum(stage_s) + (m - 1) * stage_s[0] + (len(stage_s) - 1) * hop_s


@_guarded
def makespan_s__long_hop_sets_the_pace(stage_s, m, hop_s=0):
    """a hop that is longer than every stage sets the pace.

    A link is no stage: microbatches travel side by side, and only stages make them queue.

    Rejected by: test_makespan_s__follows_the_slowest_stage
    """
    return sum(stage_s) + (m - 1) * max([*stage_s, hop_s]) + (len(stage_s) - 1) * hop_s


def makespan_s__sorts_the_stages(stage_s, m, hop_s=0):
    """the caller's list of stages is sorted on the way.

    The makespan does not depend on the order, so nothing shows here; but the caller no longer knows
    which stage is slow.

    Rejected by: test_makespan_s__follows_the_slowest_stage
    """
    seconds = _right_makespan(stage_s, m, hop_s)
    stage_s.sort()
    return seconds


_right_makespan = makespan_s


# --- the plan -----------------------------------------------------------------------------------

_right_bill = plan_bill


def _crossings(tp_size, pp_size, gpus_per_node):
    """How many of the boundaries between stages leave a node."""
    return (pp_size - 1) // max(1, gpus_per_node // tp_size)


def plan_bill__one_all_reduce_per_layer(tp_size, pp_size, gpus_per_node, *shape):
    """a layer has one all-reduce.

    One after attention and one after the MLP: two (lab 01).

    Rejected by: test_plan_bill__follows_every_message
    """
    bill = _right_bill(tp_size, pp_size, gpus_per_node, *shape)
    if tp_size == 1:
        return bill
    pp_only = _right_bill(1, pp_size, max(1, gpus_per_node // tp_size), *shape)
    for key in ("local_hops", "node_hops", "bytes_between_nodes"):
        between_stages = pp_only[key]
        bill[key] = (bill[key] - between_stages) / 2 + between_stages
        bill[key] = int(bill[key]) if key.endswith("hops") else bill[key]
    return bill


def plan_bill__every_boundary_leaves_the_node(tp_size, pp_size, gpus_per_node, *shape):
    """every stage boundary is taken for a node boundary.

    Stages smaller than a node have neighbours in the same node; only some hand-overs leave it.

    Rejected by: test_plan_bill__follows_every_message
    """
    bill = _right_bill(tp_size, pp_size, gpus_per_node, *shape)
    wrong = pp_size - 1 - _crossings(tp_size, pp_size, gpus_per_node)
    bill["local_hops"] -= wrong
    bill["node_hops"] += wrong
    bill["bytes_between_nodes"] += wrong * bill["activation_bytes"]
    return bill


def plan_bill__one_crossing_per_ring(tp_size, pp_size, gpus_per_node, *shape):
    """a ring over several nodes is taken to cross between them only once.

    A ring is closed: over k nodes it leaves a node k times, and over two nodes there and back.

    Rejected by: test_plan_bill__follows_every_message
    """
    bill = _right_bill(tp_size, pp_size, gpus_per_node, *shape)
    handed_on = _crossings(tp_size, pp_size, gpus_per_node) * bill["activation_bytes"]
    ring_bytes = (bill["bytes_between_nodes"] - handed_on) / max(1, tp_size // gpus_per_node)
    return bill | {"bytes_between_nodes": ring_bytes + handed_on}


def plan_bill__every_tp_rank_sends_it_all(tp_size, pp_size, gpus_per_node, *shape):
    """every tensor-parallel rank sends the whole activation to the next stage.

    They hold the same activation after the all-reduce; each sends its share and the receivers
    all-gather inside the node.

    Rejected by: test_plan_bill__follows_every_message
    """
    bill = _right_bill(tp_size, pp_size, gpus_per_node, *shape)
    crossings = _crossings(tp_size, pp_size, gpus_per_node)
    bill["bytes_between_nodes"] += crossings * (tp_size - 1) * bill["activation_bytes"]
    return bill


def plan_bill__bubble_of_all_ranks(
    tp_size, pp_size, gpus_per_node, layers, hidden, tokens, m, *width
):
    """the bubble is computed with all ranks as stages.

    The tensor-parallel ranks of a stage work at the same time; only stages wait for each other.

    Rejected by: test_plan_bill__follows_every_message
    """
    bill = _right_bill(tp_size, pp_size, gpus_per_node, layers, hidden, tokens, m, *width)
    return bill | {"bubble": bubble_fraction(tp_size * pp_size, m)}


def plan_bill__half_a_ring(tp_size, pp_size, gpus_per_node, num_layers, *shape):
    """an all-reduce takes tp - 1 steps.

    That is half of it: the reduce-scatter. The all-gather takes tp - 1 more.

    Rejected by: test_plan_bill__follows_every_message
    """
    bill = _right_bill(tp_size, pp_size, gpus_per_node, num_layers, *shape)
    missing = 2 * num_layers * (tp_size - 1)
    bill["node_hops" if tp_size > gpus_per_node else "local_hops"] -= missing
    return bill


def plan_bill__whole_bytes_only(tp_size, pp_size, gpus_per_node, num_layers, *shape):
    """a rank's share of an activation is rounded down to whole bytes.

    The dimensions of real models hide it. Rounding in the middle of a sum is never exact: 20 steps
    over 2 links with a sixth of 5 bytes are 100/3 bytes, not 0.

    Rejected by: test_plan_bill__follows_every_message
    """
    bill = _right_bill(tp_size, pp_size, gpus_per_node, num_layers, *shape)
    if tp_size > gpus_per_node:
        steps = 4 * num_layers * (tp_size - 1) * (tp_size // gpus_per_node)
        lost = steps * Fraction(bill["activation_bytes"] % tp_size, tp_size)
        bill["bytes_between_nodes"] -= lost
    return bill


def plan_bill__layers_of_a_stage_rounded_down(tp_size, pp_size, gpus_per_node, num_layers, *shape):
    """every stage is taken to have num_layers // pp_size layers, and the rest is forgotten.

    A microbatch passes all layers, however the stages share them: 13 layers on 5 stages are
    13 layers, not 10.

    Rejected by: test_plan_bill__follows_every_message
    """
    _right_bill(tp_size, pp_size, gpus_per_node, num_layers, *shape)  # refuses bad input
    kept = num_layers // pp_size * pp_size
    return _right_bill(tp_size, pp_size, gpus_per_node, kept, *shape)


def plan_bill__straddling_allowed(tp_size, pp_size, gpus_per_node, *shape):
    """a stage whose ranks straddle a node boundary is priced as if it did not.

    12 ranks on nodes of 8 leave a ring with links of two kinds and stages that differ.

    Rejected by: test_plan_bill__and_tasks_1_to_6_refuse_bad_input
    """
    whole = tp_size
    while isinstance(whole, int) and whole > 0 and gpus_per_node > 0:
        if gpus_per_node % whole == 0 or whole % gpus_per_node == 0:
            break
        whole -= 1
    return _right_bill(whole, pp_size, gpus_per_node, *shape)


# --- forwards and backwards -----------------------------------------------------------------------


def _warmed_up(order, warmup):
    """Each rank's forwards and backwards as 1F1B takes them, after `warmup(rank)` forwards."""
    return [
        _one_forward_one_backward(
            [op for op in ops if op[0] == "F"], [op for op in ops if op[0] == "B"], warmup(rank)
        )
        for rank, ops in enumerate(order)
    ]


@_guarded
def replay__no_waiting(order, forward_ticks=1, backward_ticks=2):
    """every rank runs its ops back to back without waiting for other ranks.

    An order says what comes next, not when; the input from the neighbour decides.

    Rejected by: test_replay__starts_an_op_when_its_inputs_are_there
    """
    ticks = {"F": forward_ticks, "B": backward_ticks}
    grid = [[op for op in ops for _ in range(ticks[op[0]])] for ops in order]
    width = max(len(row) for row in grid)
    return [row + [None] * (width - len(row)) for row in grid]


def replay__backward_like_forward(order, forward_ticks=1, backward_ticks=2):
    """a backward takes as long as a forward.

    It computes two gradients, for the input and for the weights: about twice the work.

    Rejected by: test_replay__starts_an_op_when_its_inputs_are_there
    """
    return _right_replay(order, forward_ticks, backward_ticks=forward_ticks)


def _needs__no_gradient_from_the_next_stage(op, last_stage):
    """a backward needs only its own forward, not the gradient of the next stage.

    Gradients come from the loss, which is behind the last stage; they travel back stage by stage.

    Rejected by: test_replay__starts_an_op_when_its_inputs_are_there
    """
    kind, stage, microbatch = op
    if kind == "B":
        return [("F", stage, microbatch)]
    return [("F", stage - 1, microbatch)] if stage > 0 else []


def replay__skips_what_is_stuck(order, forward_ticks=1, backward_ticks=2):
    """an op that can never run is left out in silence.

    A deadlock is the finding; a grid without the op looks like a schedule that works.

    Rejected by: test_replay__names_the_ops_of_a_deadlock
    """
    while True:
        try:
            return _right_replay(order, forward_ticks, backward_ticks)
        except ValueError as error:
            if "deadlock" not in str(error):
                raise
            order = [
                [op for op in ops if f"rank {rank} at {op}" not in str(error)]
                for rank, ops in enumerate(order)
            ]


def replay__uses_up_the_order(order, forward_ticks=1, backward_ticks=2):
    """the ops are taken out of the caller's order as they run.

    The grid is right and the order is empty afterwards: auditing it, or replaying it with other
    ticks, finds nothing. Take them out of a copy.

    Rejected by: test_replay__starts_an_op_when_its_inputs_are_there
    """
    grid = _right_replay(order, forward_ticks, backward_ticks)
    for ops in order:
        ops.clear()
    return grid


@_guarded
def replay__last_stage_on_the_last_rank(order, forward_ticks=1, backward_ticks=2):
    """the last stage is looked for among the ops of the last rank.

    It is the largest stage of all ranks: in a V-shaped placement rank 0 holds the first and the
    last. A stage taken for the last does not wait for the gradient of the one behind it.

    Rejected by: test_replay__starts_an_op_when_its_inputs_are_there
    """
    last_stage = max((stage for _, stage, _ in order[-1]), default=0)
    ticks, finished = {"F": forward_ticks, "B": backward_ticks}, {}
    grid, waiting = [[] for _ in order], [list(ops) for ops in order]
    while any(waiting):
        for row, ops in zip(grid, waiting, strict=True):
            while ops:
                needs = _needs(ops[0], max(last_stage, ops[0][1]))
                if not all(need in finished for need in needs):
                    break
                ready = max((finished[need] for need in needs), default=0)
                row.extend([None] * (ready - len(row)) + [ops[0]] * ticks[ops[0][0]])
                finished[ops.pop(0)] = len(row)
    width = max(len(row) for row in grid)
    return [row + [None] * (width - len(row)) for row in grid]


_right_replay = replay


def one_f_one_b_order__gpipe(p, m):
    """all forwards come before all backwards.

    That is GPipe: the same bubble, but every rank holds m activations.

    Rejected by: test_one_f_one_b_order__is_what_torch_runs
    """
    return gpipe_order(p, m)


@_guarded
def one_f_one_b_order__one_more_warmup(p, m):
    """a rank warms up with p - r forwards instead of p - 1 - r.

    The steady state begins with a forward too, so the rank holds one activation more than needed.

    Rejected by: test_one_f_one_b_order__is_what_torch_runs
    """
    return _warmed_up(gpipe_order(p, m), lambda rank: min(p - rank, m))


@_guarded
def one_f_one_b_order__warmup_of_the_mirror_rank(p, m):
    """rank r warms up with r forwards: the last rank waits longest instead of the first.

    The first stage has the longest way to the loss and back, so it needs the most in flight.

    Rejected by: test_one_f_one_b_order__is_what_torch_runs
    """
    return _warmed_up(gpipe_order(p, m), lambda rank: min(rank, m))


@_guarded
def one_f_one_b_order__warmup_longer_than_the_batch(p, m):
    """the warm-up has p - 1 - r forwards even where the batch has fewer.

    With 3 microbatches on 5 stages rank 0 has 3 forwards to warm up with, not 4. A slice does not
    complain: the backwards that are left are then counted from the wrong end.

    Rejected by: test_one_f_one_b_order__is_what_torch_runs
    """
    return _warmed_up(gpipe_order(p, m), lambda rank: p - 1 - rank)


@_guarded
def one_f_one_b_order__as_torch_publishes_it(p, m):
    """the last rank runs forwards 1..m, as torch 2.13.0's published list has it.

    Microbatch m does not exist and microbatch 0 is never forwarded there: the list deadlocks. What
    torch runs is right; only the list for its visualiser is off by one.

    Rejected by: test_one_f_one_b_order__is_what_torch_runs
    """
    order = _right_1f1b(p, m)
    order[-1] = [(kind, stage, i + (kind == "F")) for kind, stage, i in order[-1]]
    return order


_right_1f1b = one_f_one_b_order


def interleaved_order__stages_in_blocks(p, m, v):
    """rank r holds the v neighbouring stages rv .. rv + v - 1.

    Neighbouring stages on one rank are one thick stage again; the point is to come back to the
    rank after a short way through all the others.

    Rejected by: test_interleaved_order__is_what_torch_runs
    """
    order = _right_interleaved(p, m, v)
    return [
        [(kind, rank * v + stage // p, i) for kind, stage, i in ops]
        for rank, ops in enumerate(order)
    ]


def interleaved_order__warmup_of_1f1b(p, m, v):
    """rank r warms up with the p - 1 - r forwards of plain 1F1B.

    Its first chunk's first group must pass all v chunks before the first gradient exists.

    Rejected by: test_interleaved_order__is_what_torch_runs
    """
    return _warmed_up(_right_interleaved(p, m, v), lambda rank: min(p - 1 - rank, v * m))


def interleaved_order__hops_to_the_loss_only(p, m, v):
    """the warm-up counts the hops to the last stage, and not those of the gradient's way back.

    The rank would stand idle until the gradient is back; with other chunks to run it need not.

    Rejected by: test_interleaved_order__is_what_torch_runs
    """
    order = _right_interleaved(p, m, v)
    return _warmed_up(order, lambda rank: min((v - 1) * p + p - 1 - rank, v * m))


def interleaved_order__chunk_after_chunk(p, m, v):
    """a rank sends all m microbatches through its first chunk before it starts the second.

    That is looped breadth-first: the same bubble, but the memory of GPipe.

    Rejected by: test_interleaved_order__is_what_torch_runs
    """
    order = [
        [("F", chunk * p + rank, i) for chunk in range(v) for i in range(m)]
        + [("B", chunk * p + rank, i) for chunk in reversed(range(v)) for i in range(m)]
        for rank, _ in enumerate(_right_interleaved(p, m, v))  # which refuses bad input
    ]
    return _warmed_up(order, lambda rank: min((v - 1) * p + 2 * (p - 1 - rank), v * m))


def interleaved_order__backward_first_chunk_first(p, m, v):
    """backwards begin with the rank's first chunk.

    The gradient comes from the other end: the last chunk has it first.

    Rejected by: test_interleaved_order__is_what_torch_runs
    """
    order = _right_interleaved(p, m, v)
    return [
        [(k, (v - 1) * p + 2 * rank - stage if k == "B" else stage, i) for k, stage, i in ops]
        for rank, ops in enumerate(order)
    ]


_right_interleaved = interleaved_order


@_guarded
def peak_live_activations__all_forwards(order):
    """every forward adds an activation and no backward frees one.

    Counts the m microbatches a rank sees, not the few it holds at once: the gain of 1F1B vanishes.

    Rejected by: test_peak_live_activations__counts_what_is_held_at_once
    """
    return [sum(op[0] == "F" for op in ops) for ops in order]


@_guarded
def peak_live_activations__freed_before_the_backward(order):
    """an activation is freed when its backward starts, and a pair of ops counts as one.

    A backward reads its activation until it ends, and in the steady state the next forward has
    started before: the peak stands after the forward, not after the pair.

    Rejected by: test_peak_live_activations__counts_what_is_held_at_once
    """
    peaks = []
    for ops in order:
        live, levels = 0, []
        for this, after in zip(ops, [*ops[1:], None], strict=True):
            live += 1 if this[0] == "F" else -1
            if not after or after[0] != "B":
                levels.append(live)
        peaks.append(max(levels))
    return peaks


@_guarded
def peak_live_activations__forwards_before_the_first_backward(order):
    """the peak is taken to stand where the first backward begins.

    So it is in the usual schedules, whose warm-up is the fullest moment. In another order it may
    come later: count through all ops.

    Rejected by: test_peak_live_activations__counts_what_is_held_at_once
    """
    kinds = ["".join(op[0] for op in ops) for ops in order]
    return [len(of_rank) - len(of_rank.lstrip("F")) for of_rank in kinds]


def audit_order__only_counts(order, num_stages, m):
    """an order with the right number of ops is taken to be right.

    Torch's list has 2m ops on its last rank too, but one of them is a stranger and one is missing.

    Rejected by: test_audit_order__says_who_is_right
    """
    findings = _right_audit(order, num_stages, m)
    if sum(map(len, order)) == 2 * num_stages * m:
        return {key: [] for key in findings}
    return findings


def audit_order__only_missing(order, num_stages, m):
    """ops that nobody asked for are not looked for.

    A microbatch m that does not exist would wait for its input for ever.

    Rejected by: test_audit_order__says_who_is_right
    """
    return _right_audit(order, num_stages, m) | {"unknown": []}


@_guarded
def audit_order__rank_by_rank(order, num_stages, m):
    """an op is repeated only if one rank runs it twice.

    Two ranks that run the same op do its work twice as well: an op is one stage's, whatever rank
    holds the stage.

    Rejected by: test_audit_order__says_who_is_right
    """
    repeated = {op for ops in order for op in ops if ops.count(op) > 1}
    return _right_audit(order, num_stages, m) | {"repeated": sorted(repeated)}


_right_audit = audit_order


@_guarded
def span_bubble__of_the_window(grid):
    """the window of all ranks is used instead of the longest span of one.

    Then it is the other bubble, the idle share of the common window.

    Rejected by: test_span_bubble__is_the_other_bubble
    """
    busy = max(len(row) - row.count(None) for row in grid)
    return Fraction(len(grid[0]) - busy, len(grid[0]))


@_guarded
def span_bubble__longest_pause_of_a_rank(grid):
    """each rank's pauses are divided by its own span, and the worst rank counts.

    A rank that pauses while another is busy all the time costs nothing: the step is as long as the
    busy one. Span and work are the largest over all ranks, each on its own.

    Rejected by: test_span_bubble__is_the_other_bubble
    """
    busy = [[tick for tick, cell in enumerate(row) if cell is not None] for row in grid]
    spans = [(ticks[-1] - ticks[0] + 1, len(ticks)) for ticks in busy if ticks]
    return max(Fraction(span - work, span) for span, work in spans)


@_guarded
def span_bubble__last_tick_not_counted(grid):
    """a span is the last busy tick minus the first, without the one in which it ends.

    Ticks 0 to 2 are three ticks: the fence-post error again.

    Rejected by: test_span_bubble__is_the_other_bubble
    """
    busy = [[tick for tick, cell in enumerate(row) if cell is not None] for row in grid]
    span = max(1, max(ticks[-1] - ticks[0] for ticks in busy if ticks))
    return Fraction(span - max(map(len, busy)), span)


@_guarded
def span_bubble__mean_over_the_ranks(grid):
    """all pauses are divided by all spans, a mean over the ranks.

    A step ends when the rank with the longest span ends; ranks that are done earlier, or pause
    less, do not shorten it.

    Rejected by: test_span_bubble__is_the_other_bubble
    """
    busy = [[tick for tick, cell in enumerate(row) if cell is not None] for row in grid]
    spans = [ticks[-1] - ticks[0] + 1 for ticks in busy if ticks]
    return Fraction(sum(spans) - sum(map(len, busy)), sum(spans))
