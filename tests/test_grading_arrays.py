"""Arrays that stay with the verifier: offered operations, bounded, and no lent number leaves."""

import numpy as np
import pytest

from grading import arrays


@pytest.fixture
def lent():
    """What a call was given: x and W, numbers 0 and 1."""
    held = arrays.Held()
    x, W = np.arange(6.0).reshape(2, 3), np.ones((4, 3))
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
