"""Plausible mistakes of lab 04. See labkit/mistakes/__init__.py for how they are written down."""

EDITS = """
Rejected by: test_bubble_fraction__is_the_exact_idle_share

bubble_fraction__p_over_p_plus_m
the bubble is taken as p / (p + m).
p stages have p - 1 hand-overs to wait for, and the window has p + m - 1 ticks; counting stages
instead of gaps is the fence-post error of this lab.
    Fraction(p - 1, p + m - 1)  ->  Fraction(p, p + m)

bubble_fraction__window_of_p_plus_m
the window is taken to have p + m ticks.
The first microbatch reaches the last stage in tick p, and m - 1 more follow: p + m - 1.
    p + m - 1  ->  p + m

bubble_fraction__a_wait_per_stage
every stage is taken to wait p ticks.
Between p stages there are p - 1 hand-overs.
    Fraction(p - 1,  ->  Fraction(p,

bubble_fraction__p_and_m_swapped
stages and microbatches change places.
(m-1)/(p+m-1) grows with more microbatches; a bubble shrinks.
    Fraction(p - 1,  ->  Fraction(m - 1,

bubble_fraction__busy_share
the busy share is returned instead of the idle one.
m/(p+m-1) is the efficiency; the bubble is what is missing to 1.
    Fraction(p - 1,  ->  Fraction(m,

bubble_fraction__float
the fraction is rounded to a float.
7/70 as a float is not one tenth; a budget of exactly 10% can no longer be tested.
    Fraction(p - 1, p + m - 1)  ->  (p - 1) / (p + m - 1)

bubble_fraction__fraction_of_a_float
a float is turned into a Fraction.
The division has been rounded before: 1/3 comes out as 6004799503160661/18014398509481984.
    Fraction(p - 1, p + m - 1)  ->  Fraction((p - 1) / (p + m - 1))

bubble_fraction__over_ideal_time
the p - 1 idle ticks are divided by the m ticks of work instead of the whole window.
(p-1)/m is a real quantity, the bubble time as a fraction of the ideal time (arXiv 2104.04473).
It is an overhead, it can exceed 1, and it is not the idle share of the window.
    Fraction(p - 1, p + m - 1)  ->  Fraction(p - 1, m)

Rejected by: test_plan_bill__and_tasks_1_to_6_refuse_bad_input

bubble_fraction__unchecked
p and m below 1 are computed with instead of refused.
p=0 gives a negative bubble; a caller's bug becomes a plausible number.
    require(p=p, m=m)  ->  pass

grid_bubble__empty_is_zero
what is no grid, without cells or with uneven rows, has a bubble all the same.
No window is common to it, so nothing can be said; a broken generator would look perfect.
    require(grid=grid)  ->  pass
    len(grid) * len(grid[0])  ->  max(1, sum(map(len, grid)))

min_microbatches__percent
a budget of 10 is taken for 10 percent.
One unit, the fraction of the time; a guess about units hides the caller's bug.
    budget=budget)  ->  budget=(budget := budget / 100 if budget > 1 else budget))

plan_bill__straddling_allowed
a stage whose ranks straddle a node boundary is priced as if it did not.
12 ranks on nodes of 8 leave a ring with links of two kinds and stages that differ.
    if gpus_per_node % tp_size and tp_size % gpus_per_node:  ->  if False:

Rejected by: test_schedule_grid__runs_every_microbatch_in_order

schedule_grid__empty
the grid has no ticks at all.
A test that only loops over cells would praise it: no cell breaks a rule.
    while finished[-1] < m:  ->  while False:

schedule_grid__one_tick_too_few
the window is p + m - 2 ticks, so the last stage never runs the last microbatch.
m ticks of work and p - 1 of waiting: the last tick is p + m - 2, their number is one more.
    return grid  ->  return [row[: max(1, p + m - 2)] for row in grid]

schedule_grid__transposed
rows are ticks and columns are stages.
grid[stage][tick]: one row per stage, as every picture of a pipeline is drawn.
    return grid  ->  return [list(tick) for tick in zip(*grid)]

schedule_grid__last_in_first_out
every stage runs the microbatches in reverse order.
Same window, same bubble, but microbatch 0, the request that came first, leaves last.
    return grid  ->  return [[None if i is None else m - 1 - i for i in row] for row in grid]

Rejected by: test_schedule_grid__starts_none_early_or_late

schedule_grid__one_tick_too_many
the window is p + m ticks: one idle column too many at the end.
The last microbatch leaves the last stage with tick p + m - 2, counted from 0.
    return grid  ->  return [[*row, None] for row in grid]

schedule_grid__sees_this_tick
a stage uses what the stage before it finishes in the same tick, so nobody ever waits.
An activation exists when the tick that computes it is over. Going through the stages from first
to last while updating in place lets a microbatch fall through all of them at once.
    reversed(range(p))  ->  range(p)

schedule_grid__one_at_a_time
the next microbatch enters only after the last one left the pipeline.
That is model parallelism without a pipeline: stage 0 is free again after one tick.
    return grid
    ->  return [[t // p if t % p == stage else None for t in range(p * m)] for stage in range(p)]

Rejected by: test_grid_bubble__counts_the_idle_cells

grid_bubble__microbatch_zero_is_idle
microbatch 0 counts as idle, because 0 is false in Python.
Idle is None; test for it with `is None`.
    cell is None  ->  not cell

grid_bubble__of_the_first_stage
only the first stage's row is counted.
In a fill-drain grid all rows idle alike; in any other grid they do not.
    idle, len(grid) * len(grid[0])  ->  grid[0].count(None), len(grid[0])

grid_bubble__closed_formula
the formula of a fill-drain grid is worked out from the grid's size, and no cell is counted.
It holds for the one grid it was derived for. Counting holds for any, so that it can prove the
formula, and find the bubble of a schedule that has none.
    idle, len(grid) * len(grid[0])  ->  len(grid) - 1, len(grid[0])

grid_bubble__idle_over_busy
idle cells are divided by busy cells.
The denominator of the bubble is the whole window: a share of it, not a ratio within it.
    len(grid) * len(grid[0])  ->  max(1, len(grid) * len(grid[0]) - idle)

Rejected by: test_min_microbatches__is_the_fewest

min_microbatches__always_strict
the bubble must be strictly under the budget although `strict` is False.
8 stages with 63 microbatches idle exactly 10%: that keeps a budget of 10%.
    floor(least) + 1 if strict else ceil(least)  ->  floor(least) + 1

min_microbatches__never_strict
`strict` is ignored: exactly the budget passes as under it.
"Under 10%" with 8 stages needs 64 microbatches, 63 give 10% on the nose.
    floor(least) + 1 if strict else ceil(least)  ->  ceil(least)

min_microbatches__binary_float
the budget is taken as the binary value of the float, not as the decimal it is written as.
0.1 is stored as 0.1000000000000000055, so 7/70 counts as strictly under it, and 0.3 is stored a
hair below three tenths, so 3/10 counts as over it.
    Fraction(str(budget))  ->  Fraction(budget)

min_microbatches__float_division
m is computed in floats, whose rounding the ceiling then makes a whole microbatch.
9 x (1 / 0.6 - 1) is 6.000000000000001 in floats: one microbatch too many.
    Fraction(str(budget))  ->  float(budget)

min_microbatches__floats_for_floats
m is computed in floats, whose rounding the ceiling then makes a whole microbatch.
3 x (1 / 0.75 - 1) is 0.9999999999999998 in floats: strictly under it, one microbatch too few.
    Fraction(str(budget))  ->  budget

min_microbatches__floats_multiplied_first
m is computed in floats, whose rounding the ceiling then makes a whole microbatch.
7 x (1 - 0.1) / 0.1 is 62.99999999999999 in floats: strictly under it, one microbatch too few.
    (p - 1) * (1 / Fraction(str(budget)) - 1)  ->  (p - 1) * (1 - budget) / budget

min_microbatches__rounded_budget
the budget is met only nearly: rounded to a simpler fraction, or with an epsilon.
0.1 becomes 1/10, as it should, but 0.0015 becomes 1/667 and 1/1500 becomes 1/1000.
Fraction(str(budget)) is the decimal as it is written.
    Fraction(str(budget))  ->  Fraction(budget).limit_denominator(1000)

min_microbatches__rounded_down
the solution for m is rounded down, so the bubble stays over the budget.
Microbatches are whole; the last fraction of one must be paid for with a whole one.
    ceil(least)  ->  floor(least)

min_microbatches__of_the_overhead
the budget limits (p-1)/m, the overhead over ideal time, instead of the bubble.
It asks for more than needed: 70 instead of 63 for 8 stages at 10%.
    (1 / Fraction(str(budget)) - 1)  ->  1 / Fraction(str(budget))

Rejected by: test_latency_s__gains_nothing_from_stages

latency_s__p_hops
p stages have p hops between them.
Between p stages lie p - 1 boundaries.
    (p - 1) * hop_s  ->  p * hop_s

latency_s__whole_seconds
seconds above one are cut to whole ones.
They may be of any size, and no part of them is too small to count.
    return model_s + (p - 1) * hop_s  ->  return type(s := model_s + (p - 1) * hop_s)(s // 1 or s)

latency_s__divided_by_p
p stages are p times as fast for one request.
A request passes every layer, and each stage waits for the one before: only other requests
fill the time in which a stage is free.
    return model_s  ->  return model_s / p

Rejected by: test_throughput_per_s__nears_that_of_p_devices

throughput_per_s__without_bubble
p stages always give p times the throughput.
That is the limit for many microbatches; a batch of m pays for filling and draining.
    m / (latency_s(p, model_s, hop_s) + (m - 1) * model_s / p)  ->  p / model_s

throughput_per_s__floors_whole_seconds
whole seconds of the model are divided with //.
5 s over 2 stages are 2.5 s each.
    model_s / p  ->  (model_s // p if isinstance(model_s, int) else model_s / p)

throughput_per_s__one_at_a_time
a microbatch enters when the one before has left the last stage.
Stage 0 is free after one stage time: the next microbatch follows at once.
    (m - 1) * model_s / p  ->  (m - 1) * latency_s(p, model_s, hop_s)

throughput_per_s__hop_per_microbatch
every microbatch waits for the hop of the one before.
A hop delays; it does not occupy a stage. While microbatch 1 travels, microbatch 2 is computed.
    (m - 1) * model_s / p  ->  (m - 1) * (model_s / p + hop_s)

throughput_per_s__long_hop_sets_the_pace
a hop that is longer than a stage holds up the next microbatch.
A link is no stage: several microbatches can be on their way at once, so a hop delays each of
them and slows none down.
    (m - 1) * model_s / p  ->  (m - 1) * max(model_s / p, hop_s)

Rejected by: test_decode_steps_per_s__starves_with_few_in_flight

decode_steps_per_s__always_full
the stages are taken to be always busy, however few microbatches are in flight.
A sequence's next token waits for its last one; with one microbatch in flight, p - 1 of p stages
idle all the time. This is how a pipeline starves at low traffic.
    return in_flight / round_s  ->  return p / model_s

decode_steps_per_s__floors_whole_seconds
whole seconds of the model are divided with //.
5 s over 2 stages are 2.5 s each.
    model_s / p  ->  (model_s // p if isinstance(model_s, int) else model_s / p)

decode_steps_per_s__by_the_latency_alone
every microbatch in flight comes round in one latency, however many there are.
A stage runs one at a time: beyond what fills the stages, each waits for its turn.
    max(in_flight * model_s / p, latency_s(p, model_s, hop_s))  ->  latency_s(p, model_s, hop_s)

decode_steps_per_s__full_above_p
more than p microbatches in flight are taken to keep p stages busy, whatever a hop takes.
A microbatch that travels keeps no stage busy. The stages are full when in_flight stage times
cover the latency: from p + p (p-1) hop_s / model_s microbatches on.
    return in_flight / round_s
    ->  return p / model_s if in_flight > p else in_flight / latency_s(p, model_s, hop_s)

decode_steps_per_s__pays_the_way_back
the way back to the first stage is paid like a hop.
It carries a few token ids, and is not counted: p stages have p - 1 hops between them.
    latency_s(p, model_s, hop_s))  ->  latency_s(p, model_s, hop_s) + hop_s)

decode_steps_per_s__drains_each_step
the pipeline is drained after every decoding step.
Then each step pays the fill-drain bubble; engines keep the loop full and start a microbatch's
next step when it returns, whatever the others do.
    max(in_flight * model_s / p, latency_s(p, model_s, hop_s))
    ->  latency_s(p, model_s, hop_s) + (in_flight - 1) * model_s / p

Rejected by: test_makespan_s__follows_the_slowest_stage

makespan_s__sorts_the_stages
the caller's list of stages is sorted on the way.
The makespan does not depend on the order, so nothing shows here; but the caller no longer knows
which stage is slow.
    return sum(stage_s)  ->  return stage_s.sort() or sum(stage_s)

makespan_s__the_first_waits_too
all m microbatches wait for the slowest stage, the first one included.
The first meets every stage, the slowest among them, and waits for nobody: m - 1 follow it.
    (m - 1) *  ->  m *

makespan_s__a_hop_per_stage
p stages have p hops between them.
The last one hands nothing on.
    (len(stage_s) - 1) * hop_s  ->  len(stage_s) * hop_s

makespan_s__mean_stage
the mean stage sets the pace.
Fast stages cannot lend their time to the slow one: they wait for it in every round.
    (m - 1) * max(stage_s)  ->  (m - 1) * sum(stage_s) / Fraction(len(stage_s))

makespan_s__slow_stage_paid_once
the slow stage costs its extra time once, not once per microbatch.
Every one of the m microbatches has to pass it, one after the other.
    (m - 1) * max(stage_s)  ->  (m - 1) * min(stage_s)

makespan_s__all_stages_slow
every tick of the whole window is as long as the slowest stage.
While the first microbatch fills the pipeline, the fast stages it meets are fast: only from
then on does the slow one set the pace.
    sum(stage_s) + (m - 1) * max(stage_s)  ->  (len(stage_s) + m - 1) * max(stage_s)

makespan_s__nobody_queues
microbatches do not queue at a busy stage: only the first stage's pace counts.
A stage that takes longer than the one before it builds a queue. Each microbatch then starts
when the stage is free, not when it arrives.
    (m - 1) * max(stage_s)  ->  (m - 1) * stage_s[0]

makespan_s__long_hop_sets_the_pace
a hop that is longer than every stage sets the pace.
A link is no stage: microbatches travel side by side, and only stages make them queue.
    (m - 1) * max(stage_s)  ->  (m - 1) * max([*stage_s, hop_s])

Rejected by: test_plan_bill__follows_every_message

plan_bill__one_all_reduce_per_layer
a layer has one all-reduce.
One after attention and one after the MLP: two (lab 01).
    2 * num_layers * 2 * (tp_size - 1)  ->  num_layers * 2 * (tp_size - 1)

plan_bill__every_boundary_leaves_the_node
every stage boundary is taken for a node boundary.
Stages smaller than a node have neighbours in the same node; only some hand-overs leave it.
    boundaries // stages_per_node  ->  boundaries

plan_bill__one_crossing_per_ring
a ring over several nodes is taken to cross between them only once.
A ring is closed: over k nodes it leaves a node k times, and over two nodes there and back.
    ring_nodes * ring_steps  ->  ring_steps

plan_bill__every_tp_rank_sends_it_all
every tensor-parallel rank sends the whole activation to the next stage.
They hold the same activation after the all-reduce; each sends its share and the receivers
all-gather inside the node.
    crossings * activation_bytes  ->  crossings * tp_size * activation_bytes

plan_bill__bubble_of_all_ranks
the bubble is computed with all ranks as stages.
The tensor-parallel ranks of a stage work at the same time; only stages wait for each other.
    bubble_fraction(pp_size, m)  ->  bubble_fraction(tp_size * pp_size, m)

plan_bill__half_a_ring
an all-reduce takes tp - 1 steps.
That is half of it: the reduce-scatter. The all-gather takes tp - 1 more.
    2 * num_layers * 2 * (tp_size - 1)  ->  2 * num_layers * (tp_size - 1)

plan_bill__whole_bytes_only
a rank's share of an activation is rounded down to whole bytes.
The dimensions of real models hide it. Rounding in the middle of a sum is never exact: 20 steps
over 2 links with a sixth of 5 bytes are 100/3 bytes, not 0.
    Fraction(activation_bytes, tp_size)  ->  (activation_bytes // tp_size)

plan_bill__layers_of_a_stage_rounded_down
every stage is taken to have num_layers // pp_size layers, and the rest is forgotten.
A microbatch passes all layers, however the stages share them: 13 layers on 5 stages are
13 layers, not 10.
    2 * num_layers * 2  ->  2 * (num_layers // pp_size * pp_size) * 2

Rejected by: test_replay__starts_an_op_when_its_inputs_are_there

replay__backward_like_forward
a backward takes as long as a forward.
It computes two gradients, for the input and for the weights: about twice the work.
    "B": backward_ticks  ->  "B": forward_ticks

_needs__no_gradient_from_the_next_stage
a backward needs only its own forward, not the gradient of the next stage.
Gradients come from the loss, which is behind the last stage; they travel back stage by stage.
    [own_forward, ("B", stage + 1, microbatch)]  ->  [own_forward]

replay__uses_up_the_order
the ops are taken out of the caller's order as they run.
The grid is right and the order is empty afterwards: auditing it, or replaying it with other
ticks, finds nothing. Take them out of a copy.
    waiting = [list(ops) for ops in order]  ->  waiting = order

replay__last_stage_on_the_last_rank
the last stage is looked for among the ops of the last rank.
It is the largest stage of all ranks: in a V-shaped placement rank 0 holds the first and the
last. A stage taken for the last does not wait for the gradient of the one behind it.
    max(stage for ops in order for _, stage, _ in ops)
    ->  max((stage for _, stage, _ in order[-1]), default=0)
    _needs(ops[0], last_stage)  ->  _needs(ops[0], max(last_stage, ops[0][1]))
    _needs(op, last_stage)  ->  _needs(op, max(last_stage, op[1]))

Rejected by: test_replay__names_the_ops_of_a_deadlock

replay__skips_what_is_stuck
an op that can never run is left out in silence.
A deadlock is the finding; a grid without the op looks like a schedule that works.
    raise ValueError(f"order: deadlock, {', '.join(stuck)}")  ->  break

Rejected by: test_one_f_one_b_order__is_what_torch_runs

one_f_one_b_order__gpipe
all forwards come before all backwards.
That is GPipe: the same bubble, but every rank holds m activations.
    min(p - 1 - rank, m)  ->  m

one_f_one_b_order__one_more_warmup
a rank warms up with p - r forwards instead of p - 1 - r.
The steady state begins with a forward too, so the rank holds one activation more than needed.
    min(p - 1 - rank, m)  ->  min(p - rank, m)

one_f_one_b_order__warmup_of_the_mirror_rank
rank r warms up with r forwards: the last rank waits longest instead of the first.
The first stage has the longest way to the loss and back, so it needs the most in flight.
    min(p - 1 - rank, m)  ->  min(rank, m)

one_f_one_b_order__warmup_longer_than_the_batch
the warm-up has p - 1 - r forwards even where the batch has fewer.
With 3 microbatches on 5 stages rank 0 has 3 forwards to warm up with, not 4. A slice does not
complain: the backwards that are left are then counted from the wrong end.
    min(p - 1 - rank, m)  ->  p - 1 - rank

Rejected by: test_interleaved_order__is_what_torch_runs

interleaved_order__stages_in_blocks
rank r holds the v neighbouring stages rv .. rv + v - 1.
Neighbouring stages on one rank are one thick stage again; the point is to come back to the
rank after a short way through all the others.
    chunk * p + rank  ->  rank * v + chunk
    (v - 1 - chunk) * p + rank  ->  rank * v + v - 1 - chunk

interleaved_order__warmup_of_1f1b
rank r warms up with the p - 1 - r forwards of plain 1F1B.
Its first chunk's first group must pass all v chunks before the first gradient exists.
    (v - 1) * p + 2 * (p - 1 - rank)  ->  p - 1 - rank

interleaved_order__hops_to_the_loss_only
the warm-up counts the hops to the last stage, and not those of the gradient's way back.
The rank would stand idle until the gradient is back; with other chunks to run it need not.
    2 * (p - 1 - rank)  ->  p - 1 - rank

interleaved_order__chunk_after_chunk
a rank sends all m microbatches through its first chunk before it starts the second.
That is looped breadth-first: the same bubble, but the memory of GPipe.
    range(0, m, p)  ->  [0]
    range(group, group + p)  ->  range(m)

interleaved_order__backward_first_chunk_first
backwards begin with the rank's first chunk.
The gradient comes from the other end: the last chunk has it first.
    (v - 1 - chunk) * p  ->  chunk * p

Rejected by: test_peak_live_activations__counts_what_is_held_at_once

peak_live_activations__all_forwards
every forward adds an activation and no backward frees one.
Counts the m microbatches a rank sees, not the few it holds at once: the gain of 1F1B vanishes.
    else -1  ->  else 0

Rejected by: test_audit_order__says_who_is_right

audit_order__repeats_only_what_is_due
an unknown op that stands there twice is not called repeated.
Two findings: nobody asked for it, and it runs twice. Whoever mends the one still has the other.
    for op, count in times.items() if count > 1  ->  for op in due if times[op] > 1

audit_order__only_missing
ops that nobody asked for are not looked for.
A microbatch m that does not exist would wait for its input for ever.
    sorted(times.keys() - due)  ->  []

audit_order__rank_by_rank
an op is repeated only if one rank runs it twice.
Two ranks that run the same op do its work twice as well: an op is one stage's, whatever rank
holds the stage.
    if count > 1  ->  if any(ops.count(op) > 1 for ops in order)

Rejected by: test_span_bubble__is_the_other_bubble

span_bubble__of_the_window
the window of all ranks is used instead of the longest span of one.
Then it is the other bubble, the idle share of the common window.
    Fraction(span - work, span)  ->  Fraction(len(grid[0]) - work, len(grid[0]))

span_bubble__last_tick_not_counted
a span is the last busy tick minus the first, without the one in which it ends.
Ticks 0 to 2 are three ticks: the fence-post error again.
    ticks[-1] - ticks[0] + 1  ->  max(1, ticks[-1] - ticks[0])

span_bubble__mean_over_the_ranks
all pauses are divided by all spans, a mean over the ranks.
A step ends when the rank with the longest span ends; ranks that are done earlier, or pause
less, do not shorten it.
    span = max  ->  span = sum
    work = max  ->  work = sum

span_bubble__work_of_the_longest_span
the work is that of the rank with the longest span, and not the most of any rank.
With it a rank that starts early and ends late, and pauses, hides that another worked all along.
    work = max(len(ticks) for ticks in busy)
    ->  work = max((ticks[-1] - ticks[0], len(ticks)) for ticks in busy if ticks)[1]

span_bubble__longest_pause_of_a_rank
each rank's pauses are divided by its own span, and the worst rank counts.
A rank that pauses while another is busy all the time costs nothing: the step is as long as the
busy one. Span and work are the largest over all ranks, each on its own.
    Fraction(span - work, span)
    ->  max(1 - Fraction(len(ticks), ticks[-1] - ticks[0] + 1) for ticks in busy if ticks)
"""

_one_f_one_b_order, _audit_order = one_f_one_b_order, audit_order


def grid_bubble__uses_up_the_rows(grid):
    """idle cells are taken out of the grid while they are counted.

    The number is right, and the caller's grid is gone: what is drawn or counted next is shorter.
    Rejected by: test_grid_bubble__counts_the_idle_cells
    """
    require(grid=grid)
    cells, idle = len(grid) * len(grid[0]), 0
    for row in grid:
        while None in row:
            row.remove(None)
            idle += 1
    return Fraction(idle, cells)


def min_microbatches__float_bubble(p, budget, strict=False):
    """the bubble is rounded to a float before it is compared with the budget.

    7/70 as a float is a hair above one tenth, so 63 microbatches seem to miss a budget of 1/10.
    Rejected by: test_min_microbatches__is_the_fewest
    """
    require(p=p, budget=budget)
    m = 1
    while (bubble := (p - 1) / (p + m - 1)) > budget or (strict and bubble == budget):
        m += 1
    return m


def replay__no_waiting(order, forward_ticks=1, backward_ticks=2):
    """every rank runs its ops back to back without waiting for other ranks.

    An order says what comes next, not when; the input from the neighbour decides.
    Rejected by: test_replay__starts_an_op_when_its_inputs_are_there
    """
    require(order=order, forward_ticks=forward_ticks, backward_ticks=backward_ticks)
    ticks = {"F": forward_ticks, "B": backward_ticks}
    grid = [[op for op in ops for _ in range(ticks[op[0]])] for ops in order]
    width = max(len(row) for row in grid)
    return [row + [None] * (width - len(row)) for row in grid]


def one_f_one_b_order__as_torch_publishes_it(p, m):
    """the last rank runs forwards 1..m, as torch 2.13.0's published list has it.

    Microbatch m does not exist and microbatch 0 is never forwarded there: the list deadlocks. What
    torch runs is right; only the list for its visualiser is off by one.
    Rejected by: test_one_f_one_b_order__is_what_torch_runs
    """
    order = _one_f_one_b_order(p, m)
    order[-1] = [(kind, stage, i + (kind == "F")) for kind, stage, i in order[-1]]
    return order


def peak_live_activations__freed_before_the_backward(order):
    """an activation is freed when its backward starts, and a pair of ops counts as one.

    A backward reads its activation until it ends, and in the steady state the next forward has
    started before: the peak stands after the forward, not after the pair.
    Rejected by: test_peak_live_activations__counts_what_is_held_at_once
    """
    require(order=order)
    peaks = []
    for ops in order:
        live, levels = 0, []
        for this, after in zip(ops, [*ops[1:], None], strict=True):
            live += 1 if this[0] == "F" else -1
            if not after or after[0] != "B":
                levels.append(live)
        peaks.append(max(levels))
    return peaks


def peak_live_activations__forwards_before_the_first_backward(order):
    """the peak is taken to stand where the first backward begins.

    So it is in the usual schedules, whose warm-up is the fullest moment. In another order it may
    come later: count through all ops.
    Rejected by: test_peak_live_activations__counts_what_is_held_at_once
    """
    require(order=order)
    kinds = ["".join(op[0] for op in ops) for ops in order]
    return [len(of_rank) - len(of_rank.lstrip("F")) for of_rank in kinds]


def audit_order__only_counts(order, num_stages, m):
    """an order with the right number of ops is taken to be right.

    Torch's list has 2m ops on its last rank too, but one of them is a stranger and one is missing.
    Rejected by: test_audit_order__says_who_is_right
    """
    findings = _audit_order(order, num_stages, m)
    if sum(map(len, order)) == 2 * num_stages * m:
        return {key: [] for key in findings}
    return findings
