"""The mistakes banks: every mistake is rejected by the claim it violates, and hinted at."""

from fractions import Fraction

import numpy as np
import pytest

from labkit.loading import Lab, find_labs
from labkit.mistakes import Mistake, agree, find_hint, load_bank
from labkit.mistakes.__main__ import Verdict
from tests.conftest import ROOT

LABS_HERE = find_labs(ROOT)
FEWEST = {"lab-01": 14, "lab-02": 12, "lab-03": 12, "lab-04": 12}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lab", LABS_HERE, ids=lambda lab: lab.prefix)
def test_every_mistake_is_rejected_by_the_check_it_violates(lab, read_only_course):
    """In a process of its own: the bank runs pytest on copies of the solution."""
    run = read_only_course.run("-m", "labkit.mistakes", lab.prefix, cwd=ROOT, timeout_s=280)
    assert run.status == 0, run.text
    assert run.text.count("  rejected ") >= FEWEST.get(lab.prefix, 12)
    assert "SURVIVES" not in run.text


def test_a_mistake_that_no_check_rejects_is_reported(course):
    """The guard is fed a 'mistake' that is right."""
    bank = course.lab / "mistakes.py"
    bank.write_text(
        "def shards__is_right(dimension, size, num_ranks):\n"
        '    """nothing is wrong.\n\n    Rejected by: test_shards__are_equal_blocks_in_rank_order'
        '\n    """\n'
        "    if num_ranks < 1 or size % num_ranks:\n"
        "        raise ValueError(f'{dimension}={size} by num_ranks={num_ranks}')\n"
        "    width = size // num_ranks\n"
        "    return [slice(r * width, (r + 1) * width) for r in range(num_ranks)]\n",
        encoding="utf-8",
    )
    run = course.run("-m", "labkit.mistakes", "lab-01")
    assert run.status == 1 and "SURVIVES" in run.text and "passed" in run.text


def test_a_mistake_rejected_by_another_check_than_it_names_is_reported(course):
    bank = course.lab / "mistakes.py"
    text = bank.read_text(encoding="utf-8")
    wrong = text.replace(
        "Rejected by: test_mlp_tp__equals_the_dense_mlp",
        "Rejected by: test_shards__are_equal_blocks_in_rank_order",
    )
    assert wrong != text
    bank.write_text(wrong, encoding="utf-8")
    verdict = try_mistake_in_a_process(course, "mlp_tp__doubles_the_weights_in_place")
    assert verdict == "test_shards__are_equal_blocks_in_rank_order passed"


def test_checks_that_do_not_run_reject_nothing_and_let_nothing_survive(course):
    run = course.run("-m", "labkit.mistakes", "lab-01", LAB_IMPL="strater")
    assert run.status == 1 and "did not run" in run.text
    assert "SURVIVES" not in run.text and "  rejected " not in run.text


def try_mistake_in_a_process(course, name):
    code = (
        "from labkit.loading import find_labs; from labkit.mistakes.__main__ import try_mistakes; "
        f"print(try_mistakes(find_labs()[0], {name!r})[0].problem)"
    )
    return course.run("-c", code).text.strip()


def test_a_crash_is_not_a_rejection():
    mistake = Mistake("f__x", "f", "x", ("test_f",), None)
    assert Verdict(mistake, [], ["test_f"], "").problem == "test_f crashed instead of failing"
    assert Verdict(mistake, ["test_f"], [], "when x").problem == ""


EDIT = 'EDITS = """\n{}\n\nshards__x\nit is wrong.\n    size // {}  ->  0\n"""\n'


@pytest.mark.parametrize(
    ("bank", "complaint"),
    [
        ('def shards__x():\n    """no line that names a test."""', "needs a first line"),
        ("def shards__x():\n    pass", "needs a first line"),
        ("def no_such__x():\n    pass", "not in solution.py"),
        (EDIT.format("", "num_ranks"), "no line 'Rejected by"),
        (EDIT.format("Rejected by: test_x", "ranks"), "no `size // ranks`"),
    ],
)
def test_an_entry_that_is_no_mistake_is_refused(course, bank, complaint):
    (course.lab / "mistakes.py").write_text(bank, encoding="utf-8")
    with pytest.raises(ValueError, match=complaint):
        load_bank(Lab(course.lab))


X, W = np.arange(20.0).reshape(2, 10), np.arange(140.0).reshape(14, 10)
RIGHT = ("row_parallel", (X, W, 2), {}, ("value", X @ W.T))
# 10 inputs on 4 ranks, rounded down to 2 each: the last two inputs belong to nobody
DROPPED = ("row_parallel", (X, W, 4), {}, ("value", X[:, :8] @ W[:, :8].T))


def test_a_right_result_gets_no_hint_and_a_wrong_helper_is_seen_through_its_caller(course):
    bank = load_bank(Lab(course.lab))
    assert find_hint(bank, [RIGHT, RIGHT]) == ""
    assert "rounded down" in find_hint(bank, [RIGHT, DROPPED])


def test_one_call_alone_is_no_evidence(course):
    assert find_hint(load_bank(Lab(course.lab)), [DROPPED]) == ""


def test_none_is_no_evidence(course):
    call = ("row_parallel", (X, W, 4), {}, ("value", None))
    assert find_hint(load_bank(Lab(course.lab)), [call, call]) == ""


def test_further_calls_drop_a_suspect_that_does_not_do_the_same(course):
    bank = load_bank(Lab(course.lab))
    same = (DROPPED[1], {}, DROPPED[3])
    other = ((X, W, 3), {}, ("value", X @ W.T))  # the mistake drops an input here, too
    assert "rounded down" in find_hint(bank, [DROPPED], lambda name: [same])
    assert find_hint(bank, [DROPPED], lambda name: [same, other]) == ""


def test_a_hint_must_fit_every_call(course):
    """[1] for seven heads is what powers of two alone give; three ranks for twelve are not."""
    bank = load_bank(Lab(course.lab))
    wrong = ("legal_tp_sizes", (7, 7, [7], 8), {}, ("value", [1]))
    assert "powers of two" in find_hint(bank, [wrong, wrong])
    threes = ("legal_tp_sizes", (12, 12, [3072], 8), {}, ("value", [1, 2, 3, 4, 6]))
    assert find_hint(bank, [threes, wrong]) == find_hint(bank, [wrong, threes]) == ""


def test_where_two_things_are_wrong_the_one_that_explains_the_values_is_named_with_a_maybe(course):
    """Averaged, and uneven splits are let through: no known mistake does both."""
    bank = load_bank(Lab(course.lab))
    averaged = [
        ("row_parallel", (X, W, ranks), {}, ("value", X @ W.T / ranks)) for ranks in (1, 2, 5, 10)
    ]
    uneven = ("row_parallel", (X, W, 4), {}, ("value", X[:, :8] @ W[:, :8].T / 4))
    assert find_hint(bank, averaged).startswith("your result is what you get when the partial sums")
    said = find_hint(bank, averaged, lambda name: [uneven[1:]])
    assert said.startswith("maybe your result is what you get when the partial sums are averaged")
    odd = [("row_parallel", (X, W, ranks), {}, ("value", X @ W.T * 3)) for ranks in (2, 5)]
    assert find_hint(bank, [*odd, *averaged]) == ""  # most of the wrong values are another's


def test_the_failing_call_is_looked_at_first(course):
    """What the check did before in other functions, however often, does not hide it."""
    bank = load_bank(Lab(course.lab))
    before = [("shards", ("out", 8, 2), {}, ("value", [slice(0, 4), slice(4, 8)]))] * 60
    assert "rounded down" in find_hint(bank, [DROPPED, *before, RIGHT, DROPPED])


def test_an_exception_alone_is_no_evidence(course):
    """A size divided with / ends in a TypeError, too; so does nearly everything else."""
    call = ("column_parallel", (np.ones((2, 4)), np.ones((6, 4)), 2), {}, ("raises", "TypeError"))
    assert find_hint(load_bank(Lab(course.lab)), [call, call]) == ""


def test_a_wrong_hint_is_a_problem_and_a_missing_one_is_not():
    mistake = Mistake("f__x", "f", "x", ("test_f",), None)
    assert "another mistake" in Verdict(mistake, ["test_f"], [], "when y").problem
    assert Verdict(mistake, ["test_f"], [], "").problem == ""


def test_agree_tells_values_apart():
    assert agree([1.0, {"a": (2, "x")}], [1.0 + 1e-12, {"a": (2, "x")}])
    assert agree([2, np.float64(1)], [Fraction(2), 1])
    different = ((1.0, 1.1), (True, 1), ("1", 1), ([1], [1, 1]), (np.zeros(2), [0.0, 0.0]))
    for one, other in (*different, (10**15, 10**15 + 1), (0.5, Fraction(1, 2))):
        assert not agree(one, other)
    assert not agree(np.zeros((2, 1)), np.zeros((1, 2)))
