"""Lab 04's solution on generated sizes, speeds and orders: what must hold for all of them."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.loading import choose_lab, find_labs, load_module

lab = load_module(choose_lab("lab-04", find_labs()).file("solution"))


def test_counting_equals_the_formula_for_all_2048_pairs():
    pairs = [(p, m) for p in range(1, 17) for m in range(1, 129)]
    grids = {pair: lab.schedule_grid(*pair) for pair in pairs}
    assert all(len(grid) == p and len(grid[0]) >= m for (p, m), grid in grids.items())
    counted = {pair: lab.grid_bubble(grid) for pair, grid in grids.items()}
    assert len(counted) == 2048
    assert [pair for pair in pairs if counted[pair] != lab.bubble_fraction(*pair)] == []


quick = settings(max_examples=25, deadline=None)
stages = st.integers(1, 9)
microbatches = st.integers(1, 20)
seconds = st.fractions(Fraction(1, 50), 3, max_denominator=50)
hops = st.fractions(0, 1, max_denominator=20)


@quick
@given(stages, microbatches)
def test_each_cell_once_and_never_before_the_stage_before(p, m):
    grid = lab.schedule_grid(p, m)
    assert [len(row) for row in grid] == [p + m - 1] * p
    ticks = [{cell: t for t, cell in enumerate(row) if cell is not None} for row in grid]
    assert [len(row) - row.count(None) for row in grid] == [m] * p
    assert all(sorted(of_stage) == list(range(m)) for of_stage in ticks)
    handed_on = [(s, i) for s in range(1, p) for i in range(m)]
    assert all(ticks[s][i] > ticks[s - 1][i] for s, i in handed_on)
    assert lab.grid_bubble(grid) == lab.bubble_fraction(p, m)


@quick
@given(stages, microbatches)
def test_bubble_falls_with_m_and_rises_with_p(p, m):
    here = lab.bubble_fraction(p, m)
    assert 0 <= here < 1 and here < lab.bubble_fraction(p + 1, m)
    assert lab.bubble_fraction(p, m + 1) < here or p == 1 and here == 0


@quick
@given(st.integers(1, 40), st.fractions(Fraction(1, 500), Fraction(499, 500)), st.booleans())
def test_fewest_microbatches_is_the_fewest(p, budget, strict):
    def keeps(m):
        bubble = lab.bubble_fraction(p, m)
        return bubble < budget or bubble == budget and not strict

    least = lab.min_microbatches(p, budget, strict)
    assert keeps(least) and (least == 1 or not keeps(least - 1))


@quick
@given(stages, microbatches, seconds, hops)
def test_pipelining_adds_latency_and_never_beats_its_devices(p, m, model_s, hop_s):
    assert lab.latency_s(p, model_s, hop_s) >= model_s
    assert lab.latency_s(p + 1, model_s, hop_s) == lab.latency_s(p, model_s, hop_s) + hop_s
    once = lab.throughput_per_s(p, m, model_s, hop_s)
    assert 1 / lab.latency_s(p, model_s, hop_s) <= once <= p / model_s
    looped = lab.decode_steps_per_s(p, m, model_s, hop_s)
    assert once <= looped <= lab.decode_steps_per_s(p, m + 1, model_s, hop_s) <= p / model_s
    assert m < p or lab.decode_steps_per_s(p, m, model_s, 0) == p / model_s


@quick
@given(st.lists(seconds, min_size=1, max_size=6), microbatches, hops, st.data())
def test_makespan_follows_the_slowest_stage(stage_s, m, hop_s, data):
    makespan = lab.makespan_s(stage_s, m, hop_s)
    assert makespan == sum(stage_s) + (m - 1) * max(stage_s) + (len(stage_s) - 1) * hop_s
    assert makespan == lab.makespan_s(data.draw(st.permutations(stage_s)), m, hop_s)
    slow = data.draw(st.integers(0, len(stage_s) - 1))
    slower = [2 * s if stage == slow else s for stage, s in enumerate(stage_s)]
    assert lab.makespan_s(slower, m, hop_s) > makespan


@quick
@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 6), st.sampled_from([8, 16]), microbatches)
def test_a_plan_pays_only_for_what_it_uses(tp_size, pp_size, gpus_per_node, m):
    bill = lab.plan_bill(tp_size, pp_size, gpus_per_node, 24, 64, 3, m)
    crossings = bill["bytes_between_nodes"] / bill["activation_bytes"]
    assert crossings == bill["node_hops"] <= pp_size - 1  # TP stays in the node
    assert crossings >= bill["num_nodes"] - 1
    assert (bill["local_hops"] + bill["node_hops"] == 0) == (tp_size == pp_size == 1)
    wider = lab.plan_bill(tp_size, pp_size, gpus_per_node, 24, 64, 6, m)
    assert wider["bytes_between_nodes"] == 2 * bill["bytes_between_nodes"]


@quick
@given(stages, microbatches, st.integers(1, 4), st.integers(1, 4))
def test_1f1b_takes_as_long_as_gpipe_with_less_memory(p, m, forward_ticks, backward_ticks):
    order, gpipe = lab.one_f_one_b_order(p, m), lab.gpipe_order(p, m)
    assert not any(lab.audit_order(order, p, m).values())
    grid = lab.replay(order, forward_ticks, backward_ticks)
    assert len(grid[0]) == (p + m - 1) * (forward_ticks + backward_ticks)
    assert lab.grid_bubble(grid) == lab.grid_bubble(lab.replay(gpipe)) == lab.bubble_fraction(p, m)
    assert lab.peak_live_activations(order) == [min(m, p - rank) for rank in range(p)]
    assert lab.peak_live_activations(gpipe) == [m] * p


@quick
@given(st.integers(1, 5), st.integers(1, 4), st.integers(2, 4))
def test_interleaving_divides_the_bubble(p, groups, v):
    m = p * groups
    order = lab.interleaved_order(p, m, v)
    assert not any(lab.audit_order(order, p * v, m).values())
    assert all(stage % p == rank for rank, ops in enumerate(order) for _, stage, _ in ops)
    grid = lab.replay(order)
    assert lab.grid_bubble(grid) == lab.bubble_fraction(p, v * m) <= lab.bubble_fraction(p, m)
    warmup = [(v - 1) * p + 2 * (p - 1 - rank) for rank in range(p)]
    assert lab.peak_live_activations(order) == [min(w + 1, v * m) for w in warmup]


@quick
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 2), st.randoms(use_true_random=False))
def test_replay_finishes_every_order_that_can_finish(num_ranks, m, v, rng):
    last = num_ranks * v - 1
    left = [(kind, stage, i) for kind in "FB" for stage in range(last + 1) for i in range(m)]
    done, order = [], [[] for _ in range(num_ranks)]

    def inputs(op):
        kind, stage, i = op
        if kind == "F":
            return [("F", stage - 1, i)] if stage else []
        return [("F", stage, i)] + ([("B", stage + 1, i)] if stage < last else [])

    while left:  # one legal step after the other, each dealt to the rank that holds the stage
        op = rng.choice([op for op in left if all(need in done for need in inputs(op))])
        left.remove(op)
        done.append(op)
        order[op[1] % num_ranks].append(op)

    grid = lab.replay(order)
    first, last_tick = {}, {}
    for row in grid:
        for tick, op in enumerate(row):
            if op is not None:
                first.setdefault(op, tick)
                last_tick[op] = tick
    assert sorted(first) == sorted(done) and len({len(row) for row in grid}) == 1
    assert all(last_tick[op] - first[op] + 1 == {"F": 1, "B": 2}[op[0]] for op in done)
    assert all(first[op] > last_tick[need] for op in done for need in inputs(op))
    assert [list(dict.fromkeys(c for c in row if c)) for row in grid] == order
