"""Lab 04: a model cut into stages, a batch cut into microbatches, and the time nobody works.

    stage 0  0 1 2 3 . .        p = 3 stages, m = 4 microbatches, one tick per cell
    stage 1  . 0 1 2 3 .
    stage 2  . . 0 1 2 3        6 of 18 cells are idle: the bubble is 1/3

Read from top to bottom: the algebra, the same number by counting, what it buys, what it costs, then
(stretch) the schedules of training. Whatever can be exact is a fractions.Fraction. Where a list is
returned, a tuple is as good, and the other way round. Bad input is a ValueError that names the
argument and its value: `require`, of given_pipeline.py, checks them.
"""

from collections import Counter
from fractions import Fraction
from math import ceil, floor

from given_pipeline import require

# --- the bubble, by algebra and by counting ---------------------------------------------------


def bubble_fraction(p, m):
    """Idle share of p stages that pass on m microbatches, as an exact Fraction.

    The window is common to all stages: from the first tick of the first stage to the last tick of
    the last. ValueError for p < 1 or m < 1. Source: GPipe (arXiv 1811.06965), section 2.3.
    """
    require(p=p, m=m)
    # BEGIN SOLUTION (task 1)
    # a stage works m ticks and waits p - 1 ticks, some before its work and the rest after
    return Fraction(p - 1, p + m - 1)
    # END SOLUTION


def schedule_grid(p, m):
    """What each stage runs in each tick: grid[stage][tick] is a microbatch number, or None if idle.

    A stage runs one microbatch per tick, in order, as soon as the stage before it has finished that
    microbatch in an earlier tick. p rows of one length. ValueError for p < 1 or m < 1.
    """
    require(p=p, m=m)
    # BEGIN SOLUTION (task 2)
    grid = [[] for _ in range(p)]
    finished = [0] * p  # how many microbatches each stage has finished
    while finished[-1] < m:
        # from the last stage to the first: a stage must not see what was finished in this very tick
        for stage in reversed(range(p)):
            available = m if stage == 0 else finished[stage - 1]
            if finished[stage] < available:
                grid[stage].append(finished[stage])
                finished[stage] += 1
            else:
                grid[stage].append(None)
    return grid
    # END SOLUTION


def grid_bubble(grid):
    """Idle cells (None) over all cells of any grid, an exact Fraction: the common window's bubble.

    ValueError for a grid without cells or with rows of different lengths.
    """
    require(grid=grid)
    # BEGIN SOLUTION (task 3)
    idle = sum(cell is None for row in grid for cell in row)
    return Fraction(idle, len(grid) * len(grid[0]))
    # END SOLUTION


def min_microbatches(p, budget, strict=False):
    """Fewest microbatches that keep the bubble of p stages at or under budget (strict: under it).

    budget is a Fraction or a float between 0 and 1; a float means the decimal it is written as, so
    0.1 is one tenth. ValueError for p < 1 and for a budget outside (0, 1).
    """
    require(p=p, budget=budget)
    # BEGIN SOLUTION (task 4)
    # (p-1)/(p+m-1) <= budget, solved for m
    least = (p - 1) * (1 / Fraction(str(budget)) - 1)
    return max(1, floor(least) + 1 if strict else ceil(least))
    # END SOLUTION


# --- what it buys: throughput, not latency ----------------------------------------------------


def latency_s(p, model_s, hop_s):
    """Seconds one microbatch needs from end to end through p equal stages.

    model_s: seconds of the whole model on one device. hop_s: seconds from one stage to the next.
    Return a number of the kind that came in; a float is as good.
    ValueError for p < 1, model_s <= 0, hop_s < 0.
    """
    require(p=p, model_s=model_s, hop_s=hop_s)
    # BEGIN SOLUTION (task 5)
    return model_s + (p - 1) * hop_s
    # END SOLUTION


def throughput_per_s(p, m, model_s, hop_s):
    """Microbatches per second when m of them go through p equal stages once (a prefill, a batch).

    A hop delays a microbatch but does not occupy a stage. Arguments and errors as in latency_s, and
    ValueError for m < 1; with Fractions for seconds the rate is exact, and a float near it passes.
    """
    require(p=p, m=m, model_s=model_s, hop_s=hop_s)
    # BEGIN SOLUTION (task 5)
    # the first microbatch takes the latency, each further one leaves one stage time later
    return m / (latency_s(p, model_s, hop_s) + (m - 1) * model_s / p)
    # END SOLUTION


def decode_steps_per_s(p, in_flight, model_s, hop_s):
    """Microbatch steps per second in steady decoding with `in_flight` microbatches in the loop.

    A sequence's next token needs its last one, so a microbatch comes back to stage 0 only after it
    left the last stage. The way back (a few token ids) is not counted. Errors as in latency_s, and
    ValueError for in_flight < 1. A float is as good as a Fraction.
    """
    require(p=p, in_flight=in_flight, model_s=model_s, hop_s=hop_s)
    # BEGIN SOLUTION (task 5)
    # one round: either the stages are busy all the time, or the loop waits for its own way through
    round_s = max(in_flight * model_s / p, latency_s(p, model_s, hop_s))
    return in_flight / round_s
    # END SOLUTION


def makespan_s(stage_s, m, hop_s=0):
    """Seconds until the last of m microbatches leaves the last stage, for stages of any speed.

    stage_s: list with the seconds of each stage, in order. hop_s: seconds between neighbours.
    ValueError for an empty list, a stage time <= 0, m < 1, hop_s < 0.
    """
    require(stage_s=stage_s, m=m, hop_s=hop_s)
    # BEGIN SOLUTION (task 6)
    # the first meets every stage and hop; each further one follows it out of the slowest stage
    return sum(stage_s) + (m - 1) * max(stage_s) + (len(stage_s) - 1) * hop_s
    # END SOLUTION


# --- what it costs beside TP: bytes, hops and bubble of a plan on nodes -------------------------


def plan_bill(
    tp_size, pp_size, gpus_per_node, num_layers, hidden_size, tokens, m, bytes_per_value=2
):
    """The bill of one forward pass of a TP x PP plan, as a dict; tokens is per microbatch.

    Ranks fill the nodes in order and tp_size neighbours form a stage. A layer all-reduces twice, by
    lab 03's ring, reduce-scatter and all-gather, through its ranks in order and back to the first:
    in each step every rank sends the next one an equal part of the activation. A boundary between
    stages hands on one activation, each TP rank its share of it. A whole Fraction may be an int.
      num_nodes             nodes the plan occupies
      bubble                Fraction, of m microbatches
      activation_bytes      one [tokens, hidden_size] activation: all-reduce payload and hand-over
      local_hops            ring steps and hand-overs in sequence inside a node, per microbatch
      node_hops             those in which a message leaves its node, per microbatch
      bytes_between_nodes   Fraction, bytes that cross between nodes, per microbatch
    ValueError for a count < 1, for more stages than layers, and when a stage's ranks would straddle
    a node boundary (tp_size must divide gpus_per_node or be a multiple of it).
    Sources: Megatron-LM (arXiv 1909.08053) section 3; arXiv 2104.04473 section 4.1.
    """
    require(tp_size=tp_size, pp_size=pp_size, gpus_per_node=gpus_per_node, num_layers=num_layers)
    require(hidden_size=hidden_size, tokens=tokens, m=m, bytes_per_value=bytes_per_value)
    if pp_size > num_layers:
        raise ValueError(f"pp_size={pp_size}: num_layers={num_layers} cannot fill so many stages")
    if gpus_per_node % tp_size and tp_size % gpus_per_node:
        raise ValueError(
            f"tp_size={tp_size}: a stage would straddle nodes of gpus_per_node={gpus_per_node}; "
            "give a divisor or a multiple"
        )
    # BEGIN SOLUTION (task 7)
    activation_bytes = tokens * hidden_size * bytes_per_value
    boundaries = pp_size - 1
    stages_per_node = max(1, gpus_per_node // tp_size)
    crossings = boundaries // stages_per_node  # every stages_per_node-th boundary leaves a node
    ring_steps = 2 * num_layers * 2 * (tp_size - 1)  # two all-reduces per layer; none for one rank
    local_steps, node_steps, ring_bytes = ring_steps, 0, Fraction(0)
    if tp_size > gpus_per_node:  # the ring leaves each of its nodes, in every step
        local_steps, node_steps = 0, ring_steps
        ring_nodes = tp_size // gpus_per_node
        ring_bytes = ring_nodes * ring_steps * Fraction(activation_bytes, tp_size)
    return {
        "num_nodes": ceil(Fraction(tp_size * pp_size, gpus_per_node)),
        "bubble": bubble_fraction(pp_size, m),
        "activation_bytes": activation_bytes,
        "local_hops": local_steps + boundaries - crossings,
        "node_hops": node_steps + crossings,
        "bytes_between_nodes": ring_bytes + crossings * activation_bytes,
    }
    # END SOLUTION


# --- stretch: forwards and backwards ------------------------------------------------------------
#
# An op is a tuple (kind, stage, microbatch), kind "F" (forward) or "B" (backward). An order is one
# list of ops per rank: what the rank does, one after the other, without saying when.


def gpipe_order(p, m):
    """GPipe: all forwards, then all backwards. One stage per rank. Given as the worked example."""
    require(p=p, m=m)
    return [
        [("F", rank, i) for i in range(m)] + [("B", rank, i) for i in range(m)] for rank in range(p)
    ]


def replay(order, forward_ticks=1, backward_ticks=2):
    """Run an order: grid[rank][tick] is the op that runs, or None; an op fills one cell per tick.

    Ranks start each op as early as they can, in the order given. F of stage s needs F of stage s-1;
    B of stage s needs F of stage s and B of stage s+1; all of the same microbatch, finished. Rows
    have one length. ValueError for an order without ops, for ticks < 1, and for a deadlock: an
    order that can never finish. That message holds each op at which a rank is stuck, as it is
    written in Python: ('B', 1, 0).
    """
    require(order=order, forward_ticks=forward_ticks, backward_ticks=backward_ticks)
    ticks = {"F": forward_ticks, "B": backward_ticks}
    # BEGIN SOLUTION (task 8, stretch)
    last_stage = max(stage for ops in order for _, stage, _ in ops)
    grid = [[] for _ in order]
    finished = {}  # op -> the first tick that can use its result
    waiting = [list(ops) for ops in order]
    while any(waiting):
        left = sum(map(len, waiting))
        for row, ops in zip(grid, waiting, strict=True):
            while ops and all(need in finished for need in _needs(ops[0], last_stage)):
                op = ops.pop(0)
                ready = max((finished[need] for need in _needs(op, last_stage)), default=0)
                row.extend([None] * (ready - len(row)) + [op] * ticks[op[0]])
                finished[op] = len(row)
        if sum(map(len, waiting)) == left:
            stuck = [f"rank {rank} at {ops[0]}" for rank, ops in enumerate(waiting) if ops]
            raise ValueError(f"order: deadlock, {', '.join(stuck)}")
    width = max(len(row) for row in grid)
    return [row + [None] * (width - len(row)) for row in grid]
    # END SOLUTION


# BEGIN SOLUTION (task 8, stretch)
def _needs(op, last_stage):
    """The ops whose results `op` reads."""
    kind, stage, microbatch = op
    if kind == "F":
        return [("F", stage - 1, microbatch)] if stage > 0 else []
    own_forward = ("F", stage, microbatch)
    if stage == last_stage:
        return [own_forward]
    return [own_forward, ("B", stage + 1, microbatch)]


# END SOLUTION


def one_f_one_b_order(p, m):
    """1F1B: a rank warms up with forwards, then one forward and one backward in turn, then drains.

    One stage per rank; both kinds in microbatch order. The warm-up is just long enough for every
    rank behind to have a microbatch to work on, and never longer than the batch.
    ValueError for p < 1 or m < 1. Source: PipeDream-Flush, arXiv 2104.04473 section 2.2.1.
    """
    require(p=p, m=m)
    # BEGIN SOLUTION (task 9, stretch)
    order = []
    for rank in range(p):
        forwards = [("F", rank, i) for i in range(m)]
        backwards = [("B", rank, i) for i in range(m)]
        warmup = min(p - 1 - rank, m)
        order.append(_one_forward_one_backward(forwards, backwards, warmup))
    return order
    # END SOLUTION


# BEGIN SOLUTION (task 9, stretch)
def _one_forward_one_backward(forwards, backwards, warmup):
    """`warmup` forwards, then pairs, then the backwards that are left."""
    pairs = zip(forwards[warmup:], backwards, strict=False)
    steady = [op for pair in pairs for op in pair]
    return forwards[:warmup] + steady + backwards[len(forwards) - warmup :]


# END SOLUTION


def interleaved_order(p, m, v):
    """Interleaved 1F1B: rank r holds the v stages r, r+p, r+2p, ... of p*v thinner stages.

    Microbatches go in groups of p: the group passes the rank's first chunk, then its second, ...;
    backwards the same way with the last chunk first. A rank warms up with the forwards that come
    before microbatch 0 in its last chunk, and one more for each hop of microbatch 0 from there to
    the last stage and back (never more than there are); then pairs, then what is left, as in 1F1B.
    ValueError for p < 1, m < 1, v < 2 and when p does not divide m.
    Source: arXiv 2104.04473 section 2.2.2; Megatron-LM get_pp_rank_microbatches.
    """
    require(p=p, m=m, v=v)
    if v < 2:
        raise ValueError(f"v={v}: interleaving needs 2 or more chunks per rank")
    if m % p:
        raise ValueError(f"m={m}: give a multiple of p={p}, microbatches go in groups of p")
    # BEGIN SOLUTION (task 10, stretch)
    turns = [
        (chunk, microbatch)
        for group in range(0, m, p)
        for chunk in range(v)
        for microbatch in range(group, group + p)
    ]
    order = []
    for rank in range(p):
        forwards = [("F", chunk * p + rank, i) for chunk, i in turns]
        backwards = [("B", (v - 1 - chunk) * p + rank, i) for chunk, i in turns]
        warmup = min((v - 1) * p + 2 * (p - 1 - rank), v * m)
        order.append(_one_forward_one_backward(forwards, backwards, warmup))
    return order
    # END SOLUTION


def peak_live_activations(order):
    """Per rank, the most activations it holds at once: from the start of an F to the end of its B.

    Ranks run one op at a time, so the order alone decides; every B stands after its F. ValueError
    for an order without ops.
    """
    require(order=order)
    # BEGIN SOLUTION (task 11, stretch)
    peaks = []
    for ops in order:
        live = peak = 0
        for kind, _, _ in ops:
            live += 1 if kind == "F" else -1
            peak = max(peak, live)
        peaks.append(peak)
    return peaks
    # END SOLUTION


def audit_order(order, num_stages, m):
    """Which ops an order lacks, invents or repeats, as {"missing", "unknown", "repeated"}.

    Every stage must run F and B of every microbatch 0..m-1 exactly once, whatever the rank. An op
    that stands there more than once is repeated, be it due or unknown. Each value is a sorted list
    of ops without duplicates. ValueError for num_stages < 1 or m < 1.
    """
    require(num_stages=num_stages, m=m)
    # BEGIN SOLUTION (task 12, stretch)
    due = {(kind, stage, i) for kind in "FB" for stage in range(num_stages) for i in range(m)}
    times = Counter(op for ops in order for op in ops)
    return {
        "missing": sorted(due - times.keys()),
        "unknown": sorted(times.keys() - due),
        "repeated": sorted(op for op, count in times.items() if count > 1),
    }
    # END SOLUTION


def span_bubble(grid):
    """The other bubble: the part of the longest span that exceeds the work, as an exact Fraction.

    A rank's span runs from its first busy tick to its last; work is the most busy ticks of a rank.
    Zero-bubble papers report this one (arXiv 2401.10241 section 5.3). ValueError as in grid_bubble,
    and for a grid in which nothing runs.
    """
    require(grid=grid)
    if all(cell is None for row in grid for cell in row):
        raise ValueError("grid: nothing runs in it, so no rank has a span")
    # BEGIN SOLUTION (task 13, stretch)
    busy = [[tick for tick, cell in enumerate(row) if cell is not None] for row in grid]
    span = max(ticks[-1] - ticks[0] + 1 for ticks in busy if ticks)
    work = max(len(ticks) for ticks in busy)
    return Fraction(span - work, span)
    # END SOLUTION
