"""Lab 02's stream machine and schedules: right and overlapped is accepted, nothing else is."""

import itertools
import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.loading import find_labs, load_module

LAB = next(lab for lab in find_labs() if lab.prefix == "lab-02")
sys.path.insert(0, str(LAB.path))

from tensor_parallel_toy import schedule, stream_machine, two_timelines  # noqa: E402
from tensor_parallel_toy.stream_machine import (  # noqa: E402
    ScheduleError,
    pipeline_bound,
    simulate,
)

PROBLEMS = {
    "all_gather_gemm": schedule.all_gather_gemm,
    "gemm_reduce_scatter": schedule.gemm_reduce_scatter,
    "column_backward": schedule.column_backward,
    "row_backward": schedule.row_backward,
}
SIMPLE = ("all_gather_gemm", "gemm_reduce_scatter")


def all_ranks(problem, num_ranks):
    return [PROBLEMS[problem](num_ranks, rank) for rank in range(num_ranks)]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4, 5, 8])
def test_every_schedule_is_right_overlapped_and_sequential(problem, num_ranks):
    ops = all_ranks(problem, num_ranks)
    for gemm, comm in ((1, 1), (3, 1), (1, 3)):
        overlapped = simulate(ops, problem, gemm, comm)
        serial = simulate([schedule.sequential(o) for o in ops], problem, gemm, comm)
        assert max(overlapped["busy"]) == max(serial["busy"])
        if num_ranks == 1:
            assert overlapped["makespan"] == serial["makespan"]
        else:
            assert overlapped["makespan"] < serial["makespan"]
            assert max(overlapped["exposed"]) < max(serial["exposed"])


@pytest.mark.parametrize("problem", SIMPLE)
@given(num_ranks=st.integers(1, 8), gemm=st.integers(1, 9), comm=st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_simple_schedules_reach_the_pipeline_bound_exactly(problem, num_ranks, gemm, comm):
    run = simulate(all_ranks(problem, num_ranks), problem, gemm, comm)
    bound = pipeline_bound(problem, num_ranks, gemm, comm)
    assert run["makespan"] == bound
    assert max(run["exposed"]) == bound - num_ranks * gemm


LAYERS = ("column_backward", "row_backward", "column_backward", "row_backward")


def one_after_the_other(num_ranks, rank):
    """Backward of four layers, the top one first, as TensorParallel.run and finish do it: what a
    layer leaves for later is done where a later one says fill, or at the end."""
    order, left = [], []
    for number, layer in enumerate(reversed(LAYERS)):
        late = False
        for op in PROBLEMS[layer](num_ranks, rank):
            if op == ["later"]:
                late, mine = True, []
                continue
            if op == ["fill"]:
                order, left = order + left, []
                continue
            (mine if late else order).append([op[0], f"{number} {op[1]}", *op[2:]])
        left += mine
    return order + left


def backward_of_all(monkeypatch):
    """The problem that `one_after_the_other` solves, known to the machine as "backward"."""
    problem = {"gathered": [], "reduced": [], "products": {}}
    for number, layer in enumerate(reversed(LAYERS)):
        single = stream_machine.PROBLEMS[layer]
        for kind in ("gathered", "reduced"):
            problem[kind] += [f"{number} {tensor}" for tensor in single[kind]]
        for product, source in single["products"].items():
            problem["products"][f"{number} {product}"] = source and f"{number} {source}"
    monkeypatch.setitem(stream_machine.PROBLEMS, "backward", problem)


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("gemm, comm", [(2, 3), (1, 2), (1, 3)])
def test_what_a_layer_leaves_for_later_hides_the_next_ones_messages(
    monkeypatch, num_ranks, gemm, comm
):
    backward_of_all(monkeypatch)
    ops = [one_after_the_other(num_ranks, rank) for rank in range(num_ranks)]
    together = simulate(ops, "backward", gemm, comm)
    alone = [simulate(all_ranks(layer, num_ranks), layer, gemm, comm) for layer in LAYERS]
    assert max(together["busy"]) == sum(max(run["busy"]) for run in alone)
    exposed = sum(max(run["exposed"]) for run in alone)
    assert max(together["exposed"]) < 0.8 * exposed


@pytest.mark.parametrize("problem", SIMPLE)
def test_sequential_costs_the_sum_and_exposes_all_of_it(problem):
    ops = [schedule.sequential(o) for o in all_ranks(problem, 4)]
    run = simulate(ops, problem, gemm=3, comm=5)
    assert run["makespan"] == 4 * 3 + 3 * 5
    assert run["exposed"] == [3 * 5] * 4


def ring(num_ranks, rank):
    """An all-gather that passes chunks on: all messages of a rank come from one neighbour."""
    ahead, behind = (rank + 1) % num_ranks, (rank - 1) % num_ranks
    ops = [["post_recv", "x", (rank - t) % num_ranks, behind] for t in range(1, num_ranks)]
    for step in range(num_ranks):
        chunk = (rank - step) % num_ranks
        if step:
            ops.append(["wait", "x", chunk, behind])
        if step < num_ranks - 1:
            ops.append(["send", "x", chunk, ahead])
        ops.append(["gemm", "y", chunk])
    return ops + [["wait_send", "x", (rank - t) % num_ranks, ahead] for t in range(num_ranks - 1)]


def test_a_ring_is_accepted_as_well_as_direct_messages():
    run = simulate([ring(4, rank) for rank in range(4)], "all_gather_gemm", 1, 1)
    assert run["makespan"] == pipeline_bound("all_gather_gemm", 4, 1, 1)


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_a_deadlock_names_first_the_message_that_is_missing(num_ranks):
    """Whatever send is left out, that message is named, and none that has arrived."""
    problems = {"ring": [ring(num_ranks, rank) for rank in range(num_ranks)]}
    problems |= {name: all_ranks(name, num_ranks) for name in PROBLEMS}
    for name, ops in problems.items():
        for source in range(num_ranks):
            for _, *message in [op for op in ops[source] if op[0] == "send"]:
                spoilt = [list(of_rank) for of_rank in ops]
                spoilt[source].remove(["send", *message])
                spoilt[source].remove(["wait_send", *message])
                with pytest.raises(ScheduleError) as refused:
                    simulate(spoilt, name if name in PROBLEMS else GATHER)
                tensor, chunk, peer = message
                first = str(refused.value).removeprefix("deadlock: ").split("; ")[0]
                waits = f"rank {peer} waits for {tensor}[{chunk}] from rank {source}"
                assert first == f"{waits}, which never sends it"


MESSAGE = r"(\w+)\[(\d)\]"
CLAIMS = {  # what a deadlock says -> the op that must stand in the peer's schedule, or must not
    rf"rank \d waits for {MESSAGE} from rank (\d), which never sends it": (False, "send"),
    rf"rank \d waits for {MESSAGE} from rank (\d), and it is sent only": (True, "send"),
    rf"{MESSAGE} (?:to|has left for) rank (\d), which posts no receive": (False, "post_recv"),
    rf"{MESSAGE} (?:to|has left for) rank (\d), which posts its": (True, "post_recv"),
}


def test_what_a_deadlock_says_of_a_message_stands_in_the_schedules():
    """Ops are left out or moved at random; each part of each sentence is looked up."""
    chance, seen = random.Random(4), set()
    for how, _ in itertools.product(("moved", "left out", "another chunk"), range(2000)):
        ops, problem = [ring(3, rank) for rank in range(3)], GATHER
        if chance.random() < 0.3:
            ops, problem = all_ranks(SCATTER, 3), SCATTER
        for _ in range(chance.randint(1, 3)):
            of_rank = chance.choice(ops)
            verb, tensor, chunk, *peer = of_rank.pop(chance.randrange(len(of_rank)))
            if how != "left out":
                chunk = chunk if how == "moved" else chance.randrange(3)
                place = chance.randrange(len(of_rank) + 1)
                of_rank.insert(place, [verb, tensor, chunk, *peer])
        try:
            simulate(ops, problem)
        except ScheduleError as error:
            sentences = str(error).removeprefix("deadlock: ").split("; ")
            if sentences[0] != str(error):
                seen |= {claim for one in sentences for claim in claims_of(one, ops)}
    assert seen == {*CLAIMS, "astray"}


def claims_of(sentence, ops):
    """The claims of a sentence, each of which holds."""
    for claim, (there, verb) in CLAIMS.items():
        for tensor, chunk, peer in re.findall(claim, sentence):
            ranks = range(3) if verb == "post_recv" else [int(sentence.split()[1])]
            found = any([verb, tensor, int(chunk), rank] in ops[int(peer)] for rank in ranks)
            assert found == there, sentence
            yield claim
    for tensor, chunk in re.findall(rf"\(it sends {MESSAGE}\)", sentence):
        rank, peer = map(int, re.findall(r"rank (\d)", sentence))
        assert ["send", tensor, int(chunk), rank] in ops[peer], sentence
        assert ["post_recv", tensor, int(chunk), peer] not in ops[rank], sentence
        yield "astray"


def test_the_learners_solution_is_the_packages_schedule():
    """What a learner is graded on is what the layers run."""
    solution = load_module(LAB.file("solution"))
    for num_ranks in (1, 2, 3, 4, 8):
        for rank in range(num_ranks):
            own = solution.all_gather_gemm_schedule(num_ranks, rank)
            assert own == schedule.all_gather_gemm(num_ranks, rank)
            own = solution.gemm_reduce_scatter_schedule(num_ranks, rank)
            assert own == schedule.gemm_reduce_scatter(num_ranks, rank)


def without(ops, *unwanted):
    return [op for op in ops if op[0] not in unwanted]


def swapped(ops, first, second):
    """The first operation of each of two kinds, exchanged."""
    verbs = [op[0] for op in ops]
    i, j = verbs.index(first), verbs.index(second)
    ops = list(ops)
    ops[i], ops[j] = ops[j], ops[i]
    return ops


GATHER, SCATTER = "all_gather_gemm", "gemm_reduce_scatter"
WRONG = {  # what is done to both ranks' schedules -> what the machine must say
    "no wait": (GATHER, lambda o: without(o, "wait"), "before waiting"),
    "no gemm": (GATHER, lambda o: without(o, "gemm"), "never multiplies"),
    "no receive": (GATHER, lambda o: without(o, "post_recv"), "post the receive first"),
    "no send": (GATHER, lambda o: without(o, "send", "wait_send"), "never sends it"),
    "no wait_send": (GATHER, lambda o: without(o, "wait_send"), "may be freed"),
    "send first": (GATHER, lambda o: swapped(o, "post_recv", "send"), "post the receive first"),
    "gemm twice": (GATHER, lambda o: [o[2], *o], "twice"),
    "wait first": (GATHER, lambda o: [o[3], *without(o, "wait")], "posted no receive"),
    "wait before send": (
        GATHER,
        lambda o: [o[0], o[3], *[op for op in o if op not in (o[0], o[3])]],
        "deadlock",
    ),
    "receive twice": (GATHER, lambda o: [o[0], *o], "twice"),
    "send twice": (SCATTER, lambda o: [o[0], o[1], o[2], o[2], *o[3:]], "to rank 1 twice"),
    "no add": (SCATTER, lambda o: without(o, "add"), "lacks the share"),
    "add twice": (SCATTER, lambda o: o + [op for op in o if op[0] == "add"], "twice"),
    "peer for chunk": (
        SCATTER,
        lambda o: [[*op[:2], op[3], op[3]] if op[0] in ("post_recv", "wait") else op for op in o],
        "never sends it (it sends y[0])",
    ),
    "add early": (SCATTER, lambda o: swapped(o, "add", "wait"), "before waiting"),
    "send early": (SCATTER, lambda o: swapped(o, "gemm", "send"), "before its GEMM"),
    "unknown verb": (GATHER, lambda o: [["gather", "x", 0, 1], *o], "is none of"),
    "short": (GATHER, lambda o: [["send", "x", 0], *o], "should be"),
    "other tensor": (GATHER, lambda o: [["send", "z", 0, 1], *o], "it takes 'x'"),
    "chunk out of range": (GATHER, lambda o: [["gemm", "y", 2], *o], "0 to 1"),
    "chunk is True": (GATHER, lambda o: [["gemm", "y", True], *o], "no plain int"),
    "not an operation": (GATHER, lambda o: [7, *o], "is none of"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_schedule_is_refused_in_one_sentence(name):
    problem, spoil, says = WRONG[name]
    with pytest.raises(ScheduleError) as refused:
        simulate([spoil(ops) for ops in all_ranks(problem, 2)], problem)
    sentence = str(refused.value)
    assert says in sentence
    assert "rank" in sentence and "\n" not in sentence


def test_talking_to_oneself_is_refused():
    with pytest.raises(ScheduleError, match="talks to the rank itself"):
        simulate([[["send", "x", 0, 0]], []], "all_gather_gemm")


def test_a_chunk_changed_while_it_is_sent_is_refused():
    ops = all_ranks("gemm_reduce_scatter", 3)
    ops[0] = [
        *ops[0][:2],
        *(["gemm", "y", chunk] for chunk in range(3)),
        ["send", "y", 1, 1],
        ["send", "y", 0, 2],
        *[op for op in ops[0] if op[0] in ("wait", "add", "wait_send")],
    ]
    with pytest.raises(ScheduleError, match=r"changes y\[0\] while it is being sent to rank 2"):
        simulate(ops, "gemm_reduce_scatter")


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("seed", range(30))
def test_a_shuffled_schedule_is_run_or_refused_never_crashes(problem, seed):
    chance = random.Random(seed)
    ops = all_ranks(problem, 3)
    for rank_ops in ops:
        for _ in range(chance.randint(1, 3)):
            i, j = chance.randrange(len(rank_ops)), chance.randrange(len(rank_ops))
            rank_ops[i], rank_ops[j] = rank_ops[j], rank_ops[i]
    try:
        run = simulate(ops, problem)
    except ScheduleError as refused:
        assert "\n" not in str(refused) and len(str(refused)) < 300
    else:
        assert run["makespan"] >= max(run["busy"])


def test_spans_of_one_lane_never_overlap():
    run = simulate(all_ranks("column_backward", 4), "column_backward", 2, 3)
    assert run["spans"]
    for rank in range(4):
        for lanes in (("gemm", "wait"), ("send",)):
            spans = sorted(
                (s["start"], s["end"])
                for s in run["spans"]
                if s["rank"] == rank and s["lane"] in lanes
            )
            assert spans
            for (_, end), (start, _) in zip(spans, spans[1:], strict=False):
                assert start >= end


@pytest.mark.parametrize("problem", SIMPLE)
@pytest.mark.parametrize("times", [(1, 1), (3, 1), (1, 7)])
def test_two_timelines_show_what_each_schedule_takes(problem, times):
    ranks = all_ranks(problem, 3)
    slow = [schedule.sequential(ops) for ops in ranks]
    for own in (ranks, slow):
        lines = two_timelines.text(own, problem, *times).splitlines()
        took = simulate(own, problem, *times)
        assert lines[0].startswith(f"yours: {took['makespan']:g} units")
        assert max(map(len, lines)) <= 64 and len(lines) == 14
        half = lines[1:7], lines[8:]
        assert (half[0] == half[1]) == (took["makespan"] == pipeline_bound(problem, 3, *times))
        lanes = [line.partition("|")[2] for line in lines[1:7:2]]
        scale = lanes[0].count("0") / times[0]  # letters of a unit
        for rank, line in enumerate(lanes):
            multiplied = sum(line.count(str(chunk)) for chunk in range(3))
            assert multiplied == pytest.approx(3 * times[0] * scale, abs=2)
            assert line.count(".") == pytest.approx(took["exposed"][rank] * scale, abs=3)


def test_a_wrong_schedule_is_drawn_as_far_as_it_went():
    ranks = all_ranks("gemm_reduce_scatter", 2)
    raced = [[op for op in ops if op[0] != "wait"] for ops in ranks]
    with pytest.raises(ScheduleError) as wrong:
        simulate(raced, "gemm_reduce_scatter")
    assert wrong.value.spans
    drawn = two_timelines.text(raced, "gemm_reduce_scatter")
    assert "|1" in drawn.splitlines()[1]
    told = two_timelines.svg(raced, "gemm_reduce_scatter")
    assert told.startswith("<svg") and "a pipeline takes 2 units" in told


def test_draw_writes_both_schedules(tmp_path, capsys):
    from tensor_parallel_toy import __main__ as program

    assert program.main(["draw", "--ranks", "4", "--out", str(tmp_path)]) == 0
    assert sorted(path.stem for path in tmp_path.glob("*.svg")) == sorted(SIMPLE)
    assert capsys.readouterr().out.count("a pipeline: ") == 2
