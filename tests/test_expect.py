"""Failure text: what came back and what was expected, both readable, in one sentence."""

from fractions import Fraction

import numpy as np
import pytest

from labkit.expect import expect_close, expect_equal, expect_error
from labkit.recorder import describe_call


def sentence(expect, *arguments, **keywords):
    with pytest.raises(AssertionError) as failure:
        expect(*arguments, **keywords)
    return str(failure.value)


def test_numbers_that_differ_late_are_printed_until_they_differ():
    text = sentence(expect_close, 0.0354796123, 0.0354796124, atol=1e-15)
    assert "got 0.0354796123, expected 0.0354796124" in text
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
        ([0] * 70, [0] * 71, "returned 70 entries, expected 71."),
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
    assert len(describe_call("f", name="x" * 1000, rows=[[0] * 99] * 99)) < 150
    plans = [{f"a_long_name_{n}": n * at for n in range(30)} | {"w": "x" * 99} for at in (1, 2)]
    one, other = (describe_call("f", plan=plan) for plan in plans)
    assert one != other and "'a_long_name_7': 7, ...}" in one and len(one) < 250


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
