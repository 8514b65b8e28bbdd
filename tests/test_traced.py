"""The counting array sees every way to multiply or look up, and changes no result."""

from functools import partial

import numpy as np
import pytest

from labkit.loading import Lab
from labkit.traced import traced
from tests.hostile.corpus import read_cases

A = np.arange(15.0).reshape(3, 5)
B = np.arange(35.0).reshape(5, 7) - 9.5

WAYS = {
    "@": lambda a, b: a @ b,
    "dot": lambda a, b: np.dot(a, b),
    "method dot": lambda a, b: a.dot(b),
    "einsum": lambda a, b: np.einsum("ij,jk->ik", a, b),
    "einsum with dots": lambda a, b: np.einsum("...j,jk->...k", a, b),
    "einsum with lists": lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    "einsum with lists, optimized": lambda a, b: np.einsum(
        *(a, [..., 0], b.T, [1, 0], [..., 1]), optimize=True, dtype=float, order="C"
    ),
    "tensordot": lambda a, b: np.tensordot(a, b, axes=1),
    "inner": lambda a, b: np.inner(a, b.T),
    "broadcast and sum": lambda a, b: (a[:, :, None] * b[None]).sum(axis=1),
    "divide and sum": lambda a, b: (a[:, :, None] / (1 / b)[None]).sum(axis=1).round(9),
    "reversed": lambda a, b: (b.T @ a.T).T,
    "matmul into": lambda a, b: np.matmul(a, b, out=np.empty((3, 7))),
    "dot into": lambda a, b: np.dot(a, b, out=np.empty_like(a, shape=(3, 7))),
    "dot by name": lambda a, b: np.dot(b=b, a=a),
    "einsum into": lambda a, b: np.einsum("ij,jk->ik", a, b, out=np.empty((3, 7))),
    "tensordot by name": lambda a, b: np.tensordot(b=b, axes=1, a=a),
    "linalg": lambda a, b: np.linalg.matmul(a, b),
    "outer and sum": lambda a, b: sum(np.multiply.outer(a[:, j], b[j]) for j in range(5)),
    "at and sum": lambda a, b: times_at(a, b).sum(axis=1),
}


def times_at(a, b):
    factors = np.broadcast_to(np.asarray(a)[:, :, None], (3, 5, 7)).copy()
    np.multiply.at(factors, ..., b[None])
    return factors


CASES = [(way, which) for way in WAYS for which in ("both", "left", "right")]
CASES.remove(("method dot", "right"))  # a plain array's own method is not ours to see
CASES.remove(("at and sum", "left"))  # nor are factors that were copied


@pytest.mark.parametrize(("way", "which"), CASES)
def test_every_way_to_multiply_is_counted_and_gives_the_plain_result(way, which):
    trace, (a, b) = traced(A, B)
    a, b = (a if which != "right" else A), (b if which != "left" else B)
    result = WAYS[way](a, b)
    np.testing.assert_array_equal(np.asarray(result), A @ B)
    assert trace.total == 3 * 5 * 7


def test_a_mask_says_where():
    _, (a,) = traced(A - 7)
    np.multiply(a, 0.0, out=a, where=a < 0)
    np.testing.assert_array_equal(np.asarray(a), np.maximum(A - 7, 0))


def test_a_factor_without_axes_is_one_multiplication_per_element():
    trace, (a, b) = traced(A, B)
    np.dot(a[..., 0, 0], b)
    np.dot(b, a[..., 0, 0])
    assert trace.multiplications == [B.size, B.size]


def test_batched_products_count_every_batch():
    trace, (x, w) = traced(np.ones((2, 3, 5)), B)
    x @ w
    assert trace.multiplications == [2 * 3 * 5 * 7]


def test_slices_keep_counting_and_asarray_stops_it():
    trace, (a, b) = traced(A, B)
    a[:, :2] @ b[:2]
    assert trace.multiplications == [3 * 2 * 7]
    np.asarray(a) @ np.asarray(b)
    assert trace.total == 3 * 2 * 7


def test_a_range_looks_rows_up():
    trace, (table,) = traced(B)
    np.testing.assert_array_equal(np.asarray(table[range(1, 3)]), B[1:3])
    assert trace.table_rows == [5]


@pytest.mark.parametrize(
    "look_up", [lambda t, i: t[i], lambda t, i: np.take(t, i, axis=0), lambda t, i: t[list(i)]]
)
def test_look_ups_note_the_rows_of_the_table(look_up):
    trace, (table,) = traced(B)
    index = np.array([0, 2, 1])
    np.testing.assert_array_equal(np.asarray(look_up(table[:3], index)), B[index])
    assert trace.table_rows == [3]


JOINS = {
    "concatenate": np.concatenate,
    "vstack": np.vstack,
    "append": lambda parts: np.append(*parts, axis=0),
    "r_": lambda parts: np.r_[parts[0], parts[1]],
}


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_rows_that_are_joined_on_are_not_the_tables(join):
    trace, (table,) = traced(B)
    padded = join([table[:3], np.zeros((1, 7))])
    np.testing.assert_array_equal(np.asarray(padded[[3, 0]]), [np.zeros(7), B[0]])
    np.take(padded, [0], axis=0)
    join([table[:2], table[2:]])[[0]]
    join([padded, table[3:]])[[0]]
    assert trace.table_rows == [3, 3, 5, 5]


PADDINGS = {
    "zeros": lambda table: np.zeros((1, 7)),
    "zeros_like": lambda table: np.zeros_like(table[:1]),
    "times 0": lambda table: 0 * table[:1],
}


@pytest.mark.parametrize("padding", PADDINGS.values(), ids=PADDINGS)
def test_zeros_are_padding_wherever_they_come_from_and_in_a_copy(padding):
    trace, (table,) = traced(B)
    padded = np.vstack([table[:3], padding(table)])
    padded[[3, 0]]
    padded.copy()[[3, 0]]
    padded.astype(np.float32)[[3, 0]]
    copy = padded.copy()
    copy[3] = B[4]
    copy[[3]]
    assert trace.table_rows == [3, 3, 3, 4]


LAYOUTS = {
    "one of one": lambda t: t[None][[0]],
    "one of one by take": lambda t: np.take(t[None], [0], axis=0),
    "rows of one": lambda t: t[None][0, [3, 1]],
    "columns": lambda t: t.T[[0, 1]],
    "one long row": lambda t: t.reshape(1, -1)[0],
    "padded columns": lambda t: np.concatenate([t.T, np.zeros((9, 5))])[[0]],
}


@pytest.mark.parametrize("look_up", LAYOUTS.values(), ids=LAYOUTS)
def test_a_table_has_its_rows_in_every_layout(look_up):
    trace, (table,) = traced(B[:, :3])
    look_up(table)
    assert trace.table_rows == [5]


def test_one_of_several_tables_is_a_slice_and_no_look_up():
    trace, (table,) = traced(B[:4])
    tables = table.reshape(2, 2, 7)
    for whole in (table[None][0], np.concatenate(tables), np.concatenate(table.T[:, :, None])):
        assert trace.table_rows == [] and whole.size == table.size
    np.testing.assert_array_equal(np.asarray(tables[1][[0]]), B[2:3])
    np.testing.assert_array_equal(np.asarray(tables[1, [0]]), B[2:3])
    assert trace.table_rows == [2, 2]


@pytest.mark.parametrize("new", [np.zeros_like, np.empty_like, partial(np.full_like, fill_value=0)])
def test_a_table_may_be_laid_into_a_new_array(new):
    trace, (table,) = traced(B)
    padded = new(table, shape=(4, 7))
    padded[:3] = table[:3]
    padded[3] = 0
    padded[[3, 0]]
    padded[3] = table[3:4]
    padded[[3, 0]]
    assert trace.table_rows == [3, 4]


def test_writing_to_rows_is_no_look_up():
    trace, (table,) = traced(B)
    table[3] = table[:1] + 1
    table[[1, 2]] = 0
    np.testing.assert_array_equal(np.asarray(table[:4]), [B[0], B[1] * 0, B[2] * 0, B[0] + 1])
    assert trace.table_rows == []


def test_a_table_cannot_hide_in_its_padding():
    trace, (table,) = traced(B)
    np.concatenate([np.zeros((5, 7)), table])[5:][[0]]
    np.concatenate([table[:2], np.asarray(table[2:])])[[0]]
    padded = np.concatenate([table[:2], np.zeros((3, 7))])
    padded[2:] = table[2:]
    padded[[0]]
    assert trace.table_rows == [5, 5, 5]


@pytest.mark.parametrize("join", [np.hstack, np.column_stack, np.stack, np.concatenate])
def test_joined_factors_keep_counting(join):
    trace, (a,) = traced(A)
    joined = join([a, np.ones((3, 5))])
    np.testing.assert_array_equal(np.asarray(joined), join([A, np.ones((3, 5))]))
    joined @ np.ones((joined.shape[-1], 2))
    assert trace.total == joined.size * 2
    out = np.empty((6, 5))
    assert np.concatenate([a, a], out=out) is not None and out[3, 0] == A[0, 0]


def test_the_originals_are_copied():
    _, (a,) = traced(A)
    a[0, 0] = 99.0
    assert A[0, 0] == 0.0


def test_a_mask_selects_and_multiplies_nothing():
    trace, (a,) = traced(A)
    np.testing.assert_array_equal(np.asarray(a * (a > 0)), np.maximum(A, 0))
    assert trace.total == 0
    a * (np.asarray(a) > 0).astype(float)
    assert trace.total == A.size


PLAIN = ["honest_in_place", "honest_by_keyword", "honest_joins", "honest_pads_its_table"]


@pytest.mark.parametrize("name", PLAIN)
def test_what_the_grader_accepts_has_full_marks_in_plain_pytest(course, name):
    """The grader's half is in test_grading_corpus.py."""
    case = next(case for case in read_cases() if case.name == name)
    course.starter.write_bytes(case.source(Lab(course.lab)))
    run = course.pytest("lab-01", impl="starter")
    assert run.status == 0 and "100/100" in run.text, run.text
