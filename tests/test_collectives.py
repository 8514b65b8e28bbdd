"""collectives.py: the rank's own view, the marks, and what happens when the ranks do not meet."""

import copy
import threading
from pathlib import Path

import numpy as np
import pytest

from labkit.loading import load_module

LABS = Path(__file__).parents[1] / "phase-10-distributed-inference" / "labs"
collectives = load_module(LABS / "collectives.py")
X = np.arange(8.0).reshape(4, 2)


def arguments(num_ranks):
    return [(X + 10 * rank,) for rank in range(num_ranks)]


@pytest.mark.parametrize("num_ranks", (1, 2, 4))
@pytest.mark.parametrize(
    ("operation", "options"),
    (
        ("all_reduce", {}),
        ("all_gather", {}),
        ("all_gather", {"axis": 0}),
        ("reduce_scatter", {}),
        ("reduce_scatter", {"axis": -2}),
    ),
)
def test_a_rank_receives_what_the_ranks_receive_together(num_ranks, operation, options):
    parts = [own for (own,) in arguments(num_ranks)]
    with collectives.record() as together:
        expected = getattr(collectives, operation)(parts, **options)
    with collectives.record() as apart:
        results = collectives.run_ranks(
            lambda x, group: getattr(group, operation)(x, **options), arguments(num_ranks)
        )
    for result, wanted in zip(results, expected, strict=True):
        assert np.array_equal(result, wanted)
    assert apart.calls == together.calls
    assert len(apart.calls) == (num_ranks > 1)
    for one, other in zip(apart.calls, together.calls, strict=True):
        assert np.array_equal(one.inputs, other.inputs)
        assert np.array_equal(one.outputs, other.outputs)


def test_every_ledger_that_is_open_records_the_ranks():
    def rank(x, group):
        collectives.all_reduce([x, x])  # alone, and yet on record
        return group.all_gather(group.all_reduce(x), axis=0)

    with collectives.record() as outer, collectives.record() as inner:
        collectives.run_ranks(rank, arguments(2))
    made = ["all_reduce", "all_reduce", "all_reduce", "all_gather"]
    assert outer.operations == inner.operations == made


def test_a_rank_has_its_own_copies():
    def rank(x, group):
        x += group.rank
        total = group.all_reduce(x)
        total += group.rank
        return group.all_reduce(x), total

    shared = np.ones(2)
    (first, total0), (second, total1) = collectives.run_ranks(rank, [(shared,), (shared,)])
    assert np.array_equal(shared, np.ones(2))
    assert np.array_equal(first, [3.0, 3.0]) and not np.shares_memory(first, second)
    assert np.array_equal(total1 - total0, [1.0, 1.0])


def leaves(x, group):
    return x if group.rank == 1 else group.all_reduce(x)


def leaves_first(x, group):
    return x if group.rank == 0 else group.all_reduce(x)


def makes_another(x, group):
    return group.all_gather(x) if group.rank == 1 else group.all_reduce(x)


def cuts_another_axis(x, group):
    return group.reduce_scatter(x, axis=group.rank)


def brings_another_shape(x, group):
    return group.all_reduce(x[: 2 + group.rank])


def brings_another_type(x, group):
    return group.all_reduce(x.astype("f4") if group.rank else x)


def never_comes(x, group):
    while group.rank == 1 and not stop.is_set():
        stop.wait(0.01)
    return group.all_reduce(x)


def tries_again(x, group):
    for _ in range(3 if group.rank else 0):
        try:
            group.all_reduce(x)
        except BaseException as error:
            caught.append(error)


stop, caught = threading.Event(), []


@pytest.mark.parametrize(
    ("rank", "told"),
    (
        (leaves, "rank 0 waits at all_reduce of float64[4, 2], but rank 1 has returned"),
        (leaves_first, "rank 1 waits at all_reduce of float64[4, 2], but rank 0 has returned"),
        (makes_another, "rank 0 is at all_reduce of float64[4, 2], rank 1 at all_gather of"),
        (cuts_another_axis, "along axis 0, rank 1 at reduce_scatter of float64[4, 2] along axis 1"),
        (brings_another_shape, "at all_reduce of float64[2, 2], rank 1 at all_reduce of float64[3"),
        (brings_another_type, "at all_reduce of float64[4, 2], rank 1 at all_reduce of float32[4"),
        (never_comes, "rank 1 came to no collective and did not return within 0.2 s"),
        (tries_again, "rank 1 waits at all_reduce of float64[4, 2], but rank 0 has returned"),
    ),
)
def test_ranks_that_do_not_meet_end_in_one_sentence_and_none_is_left_waiting(rank, told):
    stop.clear()
    before = threading.active_count()
    with pytest.raises(collectives.Deadlock) as raised:
        collectives.run_ranks(rank, arguments(2), timeout_s=0.2 if rank is never_comes else 10)
    assert told in str(raised.value) and "\n" not in str(raised.value)
    stop.set()
    for thread in threading.enumerate()[before:]:
        thread.join(5)
    assert threading.active_count() == before
    assert len(caught) == 3 * (rank is tries_again)


def test_what_a_rank_raises_surfaces_as_it_is():
    def rank(x, group):
        if group.rank == 2:
            raise KeyError("its own")
        return group.all_reduce(x)

    with pytest.raises(KeyError, match="its own") as raised:
        collectives.run_ranks(rank, arguments(4))
    assert raised.traceback[-1].name == "rank"


@pytest.mark.parametrize(
    ("rank", "told"),
    (
        (lambda x, group: group.all_reduce(x.tolist()), "rank 0 brings a list, not a numpy array"),
        (lambda x, group: group.reduce_scatter(x, axis=1), "axis 1 has 2 entries, which 4 ranks"),
        (lambda x, group: collectives.all_reduce(x), r"one rank call group.all_reduce\(array\)"),
    ),
)
def test_what_a_collective_refuses_is_raised_in_the_rank(rank, told):
    with pytest.raises(ValueError, match=told):
        collectives.run_ranks(rank, arguments(4))


def test_marks_differ_by_element_and_call_but_not_by_rank():
    parts = [np.full((3, 4), 2.0), np.full((3, 4), 6.0)]
    with collectives.record(mark=np.random.default_rng(3)) as ledger:
        first = collectives.all_reduce(parts)
        second = collectives.all_reduce(parts)
        integers = collectives.all_reduce([np.arange(3), np.arange(3)])[0]
        alone = collectives.all_reduce(parts[:1])[0]
    marks = first[0] / 8 - 1
    assert np.unique(marks).size == 12 and np.abs(marks).max() <= collectives.MARK
    assert np.array_equal(*first) and not np.isclose(first[0], second[0], atol=0, rtol=1e-14).any()
    assert np.array_equal(ledger.calls[0].outputs, first)
    assert np.array_equal(integers, [0, 2, 4]) and np.array_equal(alone, parts[0])
    with collectives.record():
        assert np.array_equal(collectives.all_reduce(parts)[0], np.full((3, 4), 8.0))


def test_a_copied_group_repeats_what_the_others_brought():
    groups = []

    def rank(x, group):
        groups.append(copy.deepcopy(group))
        return group.all_reduce(group.all_gather(x, axis=0))

    results = collectives.run_ranks(rank, arguments(2))
    groups.sort(key=lambda group: group.rank)
    for (x,), group, result in zip(arguments(2), groups.copy(), results, strict=True):
        assert np.array_equal(rank(x, copy.deepcopy(group)), result)
        other = rank(x + 1, copy.deepcopy(group))
        assert other.shape == result.shape and not np.array_equal(other, result)
        with pytest.raises(collectives.Deadlock, match="rank 1 at all_gather|rank 1 at all_reduce"):
            leaves_first(x, group) if group.rank else group.all_reduce(x)


# --- parts of unequal length --------------------------------------------------------------------

LENGTHS = ([3], [0], [2, 5], [0, 4], [4, 1, 0], [0, 0, 0], [1, 3, 0, 6])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_parts_of_unequal_length_are_gathered_and_scattered(lengths):
    rng = np.random.default_rng(sum(lengths))
    parts = [rng.standard_normal((length, 3)) for length in lengths]

    def rank(mine, group):
        whole = group.all_gatherv(mine)
        return whole, group.reduce_scatterv(whole * (group.rank + 1), lengths)

    with collectives.record() as ledger:
        results = collectives.run_ranks(rank, [(part,) for part in parts])
    whole, p = np.concatenate(parts), len(parts)
    for (gathered, mine), part in zip(results, parts, strict=True):
        assert np.array_equal(gathered, whole)
        assert np.allclose(mine, part * p * (p + 1) / 2)
    sent = 2 * whole.nbytes * (p - 1) / p  # a ring: all but one part each, twice
    assert ledger.sent_bytes_per_rank == pytest.approx(sent)
    assert ledger.operations == ["all_gatherv", "reduce_scatterv"] * (p > 1)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_every_rank_receives_what_each_rank_has_for_it(lengths):
    p = len(lengths)
    rows = [[np.full((lengths[(r + s) % p], 2), 10.0 * r + s) for s in range(p)] for r in range(p)]
    with collectives.record() as ledger:
        results = collectives.run_ranks(lambda mine, g: g.all_to_allv(mine), [(r,) for r in rows])
    for r, received in enumerate(results):
        for s, array in enumerate(received):
            assert array.shape == (lengths[(r + s) % p], 2) and (array == 10.0 * s + r).all()
    crossed = sum(rows[r][s].nbytes for r in range(p) for s in range(p) if r != s)
    assert ledger.sent_bytes_per_rank * p == crossed
    for call in ledger.calls:
        assert call.payload_bytes == sum(array.nbytes for array in call.inputs[0])
        assert [array.tolist() for array in call.inputs[0]] == [row.tolist() for row in rows[0]]


@pytest.mark.parametrize(
    ("operation", "arguments", "said"),
    (
        ("reduce_scatterv", ([X, X], [1, 2]), "add up to the 4 entries"),
        ("reduce_scatterv", ([X, X], [4]), "one per rank, 2"),
        ("reduce_scatterv", ([X, X], [5, -1]), "add up to the 4 entries"),
        ("all_to_allv", ([[X, X], [X]],), "rank 1 brings a list; give a list of 2 arrays"),
        ("all_to_allv", ([X, X],), "rank 0 brings a ndarray; give a list of 2 arrays"),
        ("all_gatherv", ([X, X[:, :1]],), "rank 1 brings float64[4, 1], rank 0"),
    ),
)
def test_parts_that_do_not_fit_are_refused(operation, arguments, said):
    with pytest.raises(ValueError, match=said.replace("[", r"\[")):
        getattr(collectives, operation)(*arguments)


def test_a_rank_that_leaves_before_an_unequal_meeting_is_named():
    def rank(mine, group):
        return group.rank and group.all_gatherv(mine)

    with pytest.raises(collectives.Deadlock, match=r"rank 1 waits at all_gatherv of float64\[any"):
        collectives.run_ranks(rank, [(X,), (X,)])
