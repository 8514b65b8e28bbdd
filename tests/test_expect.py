"""Failure text: what came back and what was expected, both readable, in one sentence."""

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from collectives import Deadlock, all_reduce, run_ranks

from labkit.drawing import WIDTH, beside, draw
from labkit.expect import Unexpected, expect_close, expect_equal, expect_error, looking_at
from labkit.loading import describe_exception
from labkit.reads import narrowed
from labkit.recorder import Recorder, describe_call


def sentence(expect, *arguments, **keywords):
    with pytest.raises(AssertionError) as failure:
        expect(*arguments, **keywords)
    return str(failure.value)


def test_numbers_that_differ_late_are_printed_until_they_differ():
    text = sentence(expect_close, 0.0354796123, 0.0354796124, atol=1e-15)
    assert "got 0.0354796123, expected 0.0354796124" in text
    said = sentence(expect_close, 1.5, 0.015, atol=1e-9, units=False)
    assert "it is 100 times the expected one: percent and a share of 1?" in said
    assert "got 1, expected 2; it is 1/2 times the expected one." in sentence(
        expect_close, 1.0, 2.0, atol=0.1
    )


def test_a_result_in_a_smaller_dtype_is_told_so():
    expected = np.array([1.1, 2.3])
    text = sentence(expect_close, expected.astype("f4"), expected, atol=1e-12)
    assert "its dtype is float32, expected float64" in text
    assert "dtype" not in sentence(expect_close, expected + 1e-3, expected, atol=1e-12)


def test_a_wrong_shape_is_said_of_an_array():
    text = sentence(expect_close, np.zeros((2, 3)), np.zeros((3, 2)), atol=0)
    assert "returned an array of shape [2, 3], expected an array of shape [3, 2]" in text


def test_a_multiple_is_told_unless_it_is_one():
    assert "it is 1/2 times" in sentence(expect_close, 0.5, 1.0, atol=1e-12)
    assert "times" not in sentence(expect_close, 1 + 1e-11, 1.0, atol=1e-12)


def test_a_number_that_is_not_finite_has_a_place_in_an_array():
    said = sentence(expect_close, float("inf"), 1.0, atol=0.1)
    assert said == "returned inf; every value should be finite."
    said = sentence(expect_close, np.array([[1.0, np.nan]]), np.ones((1, 2)), atol=0.1)
    assert said == "returned nan at [0, 1]; every value should be finite."


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        ([1], [1, 7], "returned [1], expected [1, 7]."),
        ([[0, 1], [2]], [[0, 1], [2, 3]], "returned [2] at [1], expected [2, 3]."),
        (
            [0] * 70,
            [0] * 71,
            "returned 70 entries, expected 71; the first difference is at [70]: no more, "
            "expected 0.",
        ),
        (ValueError("no"), "rows", "raised ValueError: no, expected a str ('rows')."),
        ((x for x in "ab"), ["a", "b"], "returned a generator, expected a list (['a', 'b'])."),
    ],
)
def test_what_came_back_is_shown_while_it_is_short(actual, expected, said):
    assert sentence(expect_equal, actual, expected) == said


@pytest.mark.parametrize("actual", [{True: 2}, {1.0: 2}])
def test_keys_of_another_type_are_other_keys(actual):
    said = sentence(expect_equal, {"a": actual}, {"a": {1: 2}})
    assert "at the keys of ['a'], expected an int (1)" in said
    expect_equal({np.int64(1): 2}, {1: 2})


def test_a_fraction_beyond_every_float_is_wrong_in_a_sentence():
    said = sentence(expect_close, Fraction(10**400), 1.0, atol=0.1)
    assert "returned a Fraction" in said or "returned an Fraction" in said
    assert said.endswith("expected 1.")


def test_a_call_is_described_in_one_line():
    assert describe_call("f", x=np.zeros((2, 3)), p=4) == "f(x[2, 3], p=4)"
    assert describe_call("f", a_s=5 * 1e-6 - 1e-22, b_s=4.0) == "f(a_s=5e-06, b_s=4.0)"
    assert len(describe_call("f", name="x" * 1000, rows=[[0] * 99] * 99)) < 250
    call = describe_call("f", short=12, long="x" * 999)
    assert call.startswith("f(short=12, long='xxx") and len(call) < 350


def test_of_a_dict_what_the_function_looks_at_is_shown():
    model = {f"name_{n}": n for n in range(80)} | {
        "shape": [64, 8192],
        "rope": {"theta": 1, "b": 2},
    }

    def reads(model, rows):
        return model["shape"], model.get("name_7"), "absent" in model, rows[0]["rope"]["b"]

    recorder = Recorder(SimpleNamespace(f=reads), lambda name: reads)
    recorder.f(model, [model])
    assert recorder.described() == (
        "f(model={'name_7': 7, 'shape': [64, 8192], ...}, rows=[{'rope': {'b': 2, ...}, ...}])"
    )
    for whole in (
        lambda d: dict(d),
        lambda d: {**d},
        lambda d: sorted(d.items()),
        lambda d: d == 1,
    ):
        ((entries,), _) = narrowed(whole, (model,), {})
        assert entries == model and not entries.narrowed


def test_a_dict_whose_order_was_changed_is_changed():
    def reorders(plan):
        plan["a"] = plan.pop("a")

    recorder = Recorder(SimpleNamespace(f=reorders), lambda name: reorders)
    with pytest.raises(AssertionError, match="changed its argument plan"):
        recorder.f({"a": 1, "b": 2})


def test_an_array_in_a_list_that_got_another_shape_is_changed():
    def reshapes(parts):
        parts[0].shape = (3, 2)

    recorder = Recorder(SimpleNamespace(f=reshapes), lambda name: reshapes)
    with pytest.raises(AssertionError, match="changed its argument parts"):
        recorder.f([np.zeros((2, 3))])


def test_of_ranks_that_wait_for_ever_the_call_is_shown_that_waits():
    def gathers(x, group):
        return group.all_gather(x)

    recorder = Recorder(SimpleNamespace(f=gathers), lambda name: gathers)
    run_ranks(recorder.f, [(np.zeros((2, 2)),)] * 2)  # which comes back
    with pytest.raises(Deadlock):
        run_ranks(recorder.f, [(np.zeros((2, 2)),), (np.zeros((3, 2)),)])
    assert recorder.described().startswith("f(x[3, 2], ")


def test_what_a_call_raises_keeps_the_idea():
    try:
        with looking_at("slice x, too"):
            np.zeros((2, 3)) @ np.zeros((2, 3))
    except ValueError as error:
        told = describe_exception(error, Path("starter.py"))
    assert told.endswith("Look again at: slice x, too.") and "mismatch" in told
    with pytest.raises(ValueError, match="give a list with") as caught, looking_at("an idea"):
        all_reduce(np.zeros(2))  # which says itself what to give it
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(NotImplementedError) as caught, looking_at("an idea"):
        raise NotImplementedError("to be written")
    assert not hasattr(caught.value, "__notes__")


def test_a_subclass_is_as_good_as_its_base_but_true_is_not_one():
    expect_equal([type("Count", (int,), {})(64)], [64])
    assert "returned a bool (True), expected an int (1)" in sentence(expect_equal, True, 1)


def test_a_list_is_as_good_as_a_tuple_and_a_type_alone_brings_no_idea():
    expect_equal([1, (2, [3])], (1, [2, (3,)]))
    expect_equal(np.array([64, 8192]), (64, 8192))
    said = sentence(expect_equal, np.zeros((10**9, 0)), [3])  # in no time and no memory
    assert said == "returned an array of shape [1000000000, 0], expected a list ([3])."
    said = sentence(expect_equal, 0.5, Fraction(1, 2), idea="count the ticks")
    assert said == "returned a float (0.5), expected a Fraction (Fraction(1, 2))."
    said = sentence(expect_equal, {0: 3}, [3], idea="count the ticks")
    assert said == "returned a dict ({0: 3}), expected a list ([3])."
    said = sentence(expect_equal, 0.25, Fraction(1, 2), idea="count the ticks")
    assert said.endswith("Look again at: count the ticks.")


def test_a_refusal_names_a_word_as_a_word():
    """Each alone is in the sentence; a part of a longer name or number is not."""

    def refuse(text):
        raise ValueError(text)

    for text, *words in (
        ("p must be at least 1, got 0", "p", 1, 0),
        ("num_ranks=4 does not divide ffn_width 10.", "num_ranks", 4, "num_ranks=4", 10),
        ("80GiB, 2 stages: [('F', 0, 3)] and op('B', 1, 3) wait", 80, "stage", ("F", 0, 3)),
        ("op('B', 1, -3) of 'order'", ("B", 1, -3), "order", -3),
    ):
        expect_error(ValueError, refuse, text, mentions=words)
    for text, word in (
        ("pipeline too short", "p"),
        ("10 is not divisible", 1),
        ("0.25 is too little", 25),
        ("2.5 is too little", 2),
        ("num_ranks is uneven", "rank"),
        ("steps too small", "m"),
        ("tp_size=16", "tp_size=1"),
    ):
        told = sentence(expect_error, ValueError, refuse, text, mentions=[word])
        assert f"does not name {str(word)!r}" in told
    told = sentence(expect_error, ValueError, iter([]).__next__)
    assert told == "raised StopIteration; expected a ValueError."


def test_two_grids_are_drawn_with_the_first_difference_marked():
    yours, expected = [[0, 1, None], [None, 1]], [[0, 1, None], [None, 0, 1]]
    with pytest.raises(Unexpected) as caught, beside(yours, expected, "stage", short):
        raise Unexpected("stage 1 runs 1")
    assert caught.value.drawing.splitlines() == [
        "yours             expected",
        "stage 0  0 1 .    stage 0  0 1 .",
        "stage 1  .>1      stage 1  .>0 1",
    ]
    long = [[number] * 90 for number in range(20)]
    other = [row[:] for row in long]
    other[15][80] = None
    lines = draw(other, long, "rank", short).splitlines()
    assert max(map(len, lines)) <= WIDTH and len(lines) == 2 * 9
    assert sum(">" in line for line in lines) == 2 and any(">." in line for line in lines)
    assert draw(long, long) == ""


def short(cell):
    return "." if cell is None else str(cell)
