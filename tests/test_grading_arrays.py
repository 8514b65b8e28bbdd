"""Arrays that stay with the judge: offered operations, bounded, and no lent number leaves."""

import numpy as np
import pytest

from grading import arrays
from grading.inside import recording
from labkit.loading import ROOT, load_module
from labkit.traced import traced

collectives = load_module(next(ROOT.glob("phase-10-*/labs/collectives.py")))


@pytest.fixture
def lent():
    """What a call was given: x and W, numbers 0 and 1."""
    trace, (x, W) = traced(np.arange(6.0).reshape(2, 3), np.ones((4, 3)))
    held = arrays.Held([trace])
    held.number_of(x)
    held.number_of(W)
    return held, x, W


def test_notes_are_done_in_order_and_may_use_earlier_ones(lent):
    held, x, W = lent
    notes = [("T", W), ("matmul", x, arrays.Promise(0)), ("[]", arrays.Promise(1), (0, 1))]
    first, product, number = arrays.perform_notes(notes, held)
    assert np.array_equal(product, x @ W.T)
    assert number.shape == () and number == product[0, 1]  # even one number stays an array


def test_results_may_be_copied_and_what_was_lent_may_not(lent):
    held, x, W = lent
    notes = [("T", W), ("matmul", x, arrays.Promise(0)), ("add", x, 0.0), ("[]", x, slice(0, 1))]
    transposed, product, plus_nothing, part = arrays.perform_notes(notes, held)
    assert held.values(product)[2] == (x @ W.T).tobytes()
    for array in (x, W, transposed, plus_nothing, part):
        with pytest.raises(TypeError, match="only results"):
            held.values(array)


def test_a_call_learns_a_few_bits_of_what_it_was_lent_and_no_more(lent):
    held, x, _ = lent
    notes = [("isfinite", x), ("method", arrays.Promise(0), "all", (), {}), ("greater", x, 2.0)]
    finite, every, large, number = arrays.perform_notes([*notes, ("[]", x, (0, 0))], held)
    for array in (finite, large, number):
        with pytest.raises(TypeError, match="only results"):  # as many bits as elements
            held.values(array)
    for _ in range(arrays.MAX_ANSWERS):
        assert held.values(every) == ("bool", (), b"\1")
    with pytest.raises(TypeError, match="only results"):
        held.values(every)


def test_a_mask_makes_no_result_of_what_was_lent(lent):
    held, x, W = lent
    (masked,) = arrays.perform_notes([("multiply", W, np.ones((4, 3), bool))], held)
    with pytest.raises(TypeError, match="only results"):
        held.values(masked)


@pytest.mark.parametrize(
    "note",
    [
        lambda x: ("function", "dot", (x, 1.0), {}),
        lambda x: ("function", "einsum", ("ij->ij", x), {}),
        lambda x: ("matmul", x, np.eye(3).tolist()),
        lambda x: ("ufunc", "multiply", "reduce", (x,), {"axis": (), "initial": np.array(1.0)}),
    ],
)
def test_what_the_trace_does_not_count_makes_no_result_of_what_was_lent(lent, note):
    held, x, _ = lent
    (copy,) = arrays.perform_notes([note(x)], held)
    assert np.array_equal(copy, x)
    with pytest.raises(TypeError, match="only results"):
        held.values(copy)


def test_look_ups_are_results_only_where_the_call_was_given_indices():
    for looks_up in (True, False):
        trace, (x,) = traced(np.arange(6.0).reshape(2, 3))
        held = arrays.Held([trace], looks_up)
        held.number_of(x)
        notes = [("[]", x, [0, 1]), ("[]", x, np.arange(2)), ("[]", x, 0)]
        notes += [("add", arrays.Promise(0), 0.0), ("method", x, "take", ([0, 1], 0), {})]
        for array in arrays.perform_notes(notes, held):
            if looks_up:
                held.values(array)
            else:
                with pytest.raises(TypeError, match="only results"):
                    held.values(array)
        (column,) = arrays.perform_notes([("[]", x, (slice(None), [0, 1, 2]))], held)
        with pytest.raises(TypeError):  # the trace does not see this one
            held.values(column)


def test_notes_keep_no_more_than_their_share_of_memory(monkeypatch):
    monkeypatch.setattr(arrays, "MAX_HELD_BYTES", 5 * 8_000)
    held, x = arrays.Held(), np.ones(1000)
    held.number_of(x)
    with pytest.raises(arrays.NoteFailed) as caught:
        arrays.perform_notes([("add", x, 1.0)] * 50, held)
    assert caught.value.note == 4 and held.bytes <= arrays.MAX_HELD_BYTES
    assert len(held.accounted) == 5


@pytest.mark.parametrize(
    "note",
    [
        ("[]", arrays.Promise(3), 0),  # of a later note
        ("load", "/etc/passwd"),
        ("function", "fromfile", ("/etc/passwd",), {}),
        ("function", "save", ("/tmp/x",), {}),
        ("function", "repeat", (np.ones(9), 10**9), {}),
        ("function", "concatenate", ([np.ones(1_500_000)] * 2,), {}),
        ("function", "sum", (np.ones(3),), {"like": 1}),
        ("method", np.ones(3), "tofile", ("/tmp/x",), {}),
        ("method", np.ones(3), "astype", ("object",), {}),
        ("where", np.ones(3) > 0, np.ones(3), None),
        ("outer", np.ones(10_000), np.ones(10_000)),
        ("matmul", np.ones((8000, 2)), np.ones((2, 8000))),
        ("matmul", np.ones((3000, 2), "e"), np.ones((2, 3000), "e")),  # slower than float64
        ("matmul", np.ones((3000, 2), "D"), np.ones((2, 3000), "D")),
        ("add", np.ones((5000, 1)), np.ones((1, 5000))),
        ("add", np.ones(3)),
        ("divmod", np.ones(3), np.ones(3)),
        ("order", np.ones(3), "K"),
        ("function", "sum", (np.ones(3),), {"shape": (3,)}),
        ("function", "zeros_like", (np.ones(3),), {"shape": (-1,)}),
        ("function", "zeros_like", (np.ones(3),), {"shape": np.array([3])}),
        (),
        "add",
        (7, 8),
    ],
    ids=repr,
)
def test_everything_else_is_refused(lent, note):
    held, _, _ = lent
    with pytest.raises(arrays.NoteFailed) as caught:
        arrays.perform_notes([note], held)
    assert isinstance(caught.value.__cause__, (ValueError, TypeError))


def test_numbers_out_of_range_are_no_arrays(lent):
    held, x, _ = lent
    assert held.array_of(0) is x
    for number in (2, 1 << 30, arrays.FIRST_PROMISE + arrays.MAX_NOTES):
        with pytest.raises(arrays.Refused):
            held.array_of(number)


X, LARGE = np.ones((2, 3)), np.zeros(2_000_000)
TOO_MUCH = {
    "a shape by name": ("function", "ones_like", (X,), {"shape": (6 * 10**8,)}),
    "a shape of many axes": ("function", "empty_like", (X,), {"shape": [10**3] * 3}),
    "rows at many places": ("function", "put_along_axis", (LARGE[:, None], [[0] * 99], 0.0, 1)),
    "factors at many places": ("ufunc", "multiply", "at", (LARGE, [0] * 99, 1.0)),
    "another shape": ("function", "ones_like", (X, "float64", "K", True, (6 * 10**8,))),
    "one array joined with itself": ("function", "concatenate", ([LARGE] * 280,)),
    "a split into millions": ("function", "array_split", (X, 20_000_000)),
    "a triangle of a long row": ("function", "tril", (np.zeros(66_000),)),
    "text of every number": ("method", LARGE, "astype", ("S2000",)),
    "a product of lists": ("function", "outer", ([1.0] * 20_000, [1.0] * 20_000)),
    "one row, many times": ("function", "take", (LARGE.reshape(1, -1), [0] * 60, 0)),
    "bounds that broadcast": ("method", np.zeros((11_000, 1)), "clip", (np.zeros((1, 11_000)),)),
    "ints without end": ("ufunc", "multiply", "reduce", ([1 << 4000] * 10,)),
    "ints that become objects": ("ufunc", "multiply", "reduce", ([1 << 62] * 40 + [None],)),
    "long text": ("ufunc", "add", "__call__", (["a" * 2000], "b")),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_would_be_large_is_refused_before_it_is_made(what):
    operation, *arguments = TOO_MUCH[what]
    if type(arguments[-1]) is not dict:
        arguments.append({})
    with pytest.raises(arrays.Refused):
        arrays.perform(operation, tuple(arguments), {})


COLUMN = np.zeros((20_000, 1), int)
CROSSED = {
    "column and row": (COLUMN, COLUMN.T),
    "column and list": (COLUMN, [[0] * 20_000]),
    "and of each a row": (COLUMN[:500], COLUMN[:500].T, slice(None)),
}


@pytest.mark.parametrize("way", ["at", "setitem", "getitem"])
@pytest.mark.parametrize("name", CROSSED)
def test_arrays_that_broadcast_in_an_index_are_as_large_as_together(name, way):
    index = CROSSED[name]
    array = np.zeros((1, 1, *[1000] * (len(index) - 2)))
    operation, *arguments = {
        "at": ("ufunc", "add", "at", array, index, 1.0, {}),
        "setitem": ("setitem", array, index, 1.0),
        "getitem": ("getitem", array, index),
    }[way]
    with pytest.raises(arrays.Refused, match="too large"):
        arrays.perform(operation, tuple(arguments), {})


def test_an_index_of_several_arrays_that_is_not_large_is_carried_out():
    square, order = np.arange(10_000.0).reshape(100, 100), np.arange(100)[::-1]
    mask, line = order % 2 == 0, np.arange(50)
    for index in (np.ix_(order, order), (order, 3), (mask, line), (mask, [[3]]), ([0, 1], [[2]])):
        given = arrays.perform("getitem", (square, index), {})
        assert np.array_equal(given, square[index])
    with pytest.raises(IndexError, match="broadcast"):  # numpy's own words
        arrays.perform("getitem", (square, ([0, 1], [0, 1, 2])), {})


X0 = np.zeros((2, 3))
WRITES = {
    "copyto": ("function", "copyto", (X0, 1.0), {}),
    "putmask": ("function", "putmask", (X0, X0 == 0, 1.0), {}),
    "place": ("function", "place", (X0, X0 == 0, [1.0]), {}),
    "put": ("function", "put", (X0, [0], 1.0, "clip"), {}),
    "fill_diagonal": ("function", "fill_diagonal", (X0, 1.0), {}),
    "put_along_axis": ("function", "put_along_axis", (X0, np.array([[0]]), 1.0, 1), {}),
    "at": ("ufunc", "add", "at", X0, 0, 1.0, {}),
    "out": ("ufunc", "add", "__call__", (X0, 1.0), {"out": X0}),
}


@pytest.mark.parametrize("way", WRITES)
def test_results_can_be_written_to_and_what_was_lent_cannot(way):
    operation, *arguments = WRITES[way]
    lent = X0.view()
    lent.flags.writeable = False
    for array in (lent, lent.T, lent[:, ::2]):
        with pytest.raises(ValueError, match="read-only"):
            arrays.perform(operation, tuple(replaced(arguments, array)), {})
    assert not X0.any()
    own = X0.copy()
    assert arrays.perform(operation, tuple(replaced(arguments, own)), {}) is None
    assert own.any()


def replaced(value, array):
    """`value` with `array` for X0, and a mask of its shape for a mask."""
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, array) for item in value)
    if isinstance(value, dict):
        return {key: replaced(item, array) for key, item in value.items()}
    mask = isinstance(value, np.ndarray) and value.dtype == bool
    return array if value is X0 else np.ones(array.shape, bool) if mask else value


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_the_sandboxs_ledger_counts_what_the_courses_does(num_ranks):
    """The sandbox has no course files, so `record` stands there a second time: alike, or wrong."""
    parts = [np.arange(12.0 * num_ranks) + rank for rank in range(num_ranks)]
    operations = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
    with collectives.record() as theirs, recording.record() as ours:
        for name in operations:
            recording.write(name, parts, getattr(collectives, name)(parts))
    assert len(theirs.calls) == (len(operations) if num_ranks > 1 else 0)
    fields = ("order", "operation", "num_ranks", "payload_bytes", "sent_bytes_per_rank")
    for own, expected in zip(ours.calls, theirs.calls, strict=True):
        assert [getattr(own, f) for f in fields] == [getattr(expected, f) for f in fields]
    assert ours.operations == theirs.operations
    assert ours.sent_bytes_per_rank == theirs.sent_bytes_per_rank
    names = {name for name in vars(collectives) if not name.startswith("_")}
    assert names <= {*recording.public_names(), *operations}
