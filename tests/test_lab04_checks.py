"""Lab 04's checks on other right answers: what is right must pass, however it is written."""

from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from labkit.loading import choose_lab, find_labs, load_module

LAB = choose_lab("lab-04", find_labs())
solution = load_module(LAB.file("solution"))
checks = load_module(LAB.file("test_lab"))


def with_own(**functions):
    return SimpleNamespace(**(vars(solution) | functions))


def makespan_from_a_fraction(stage_s, m, hop_s=0):
    return Fraction(0) + solution.makespan_s(stage_s, m, hop_s)


def bill_of(kind):
    """plan_bill whose whole numbers all come as `kind`."""

    def plan_bill(*arguments):
        bill = solution.plan_bill(*arguments)
        return {key: kind(x) if x == int(x) else x for key, x in bill.items()}

    return plan_bill


def test_a_makespan_may_be_a_fraction_even_for_whole_seconds():
    checks.test_makespan_s__follows_the_slowest_stage(with_own(makespan_s=makespan_from_a_fraction))


@pytest.mark.parametrize("kind", [int, Fraction])
def test_a_bill_may_hold_whole_numbers_as_either_type(kind):
    checks.test_plan_bill__follows_every_message(with_own(plan_bill=bill_of(kind)))


def test_floats_are_no_exact_numbers():
    with pytest.raises(AssertionError, match="returned a float"):
        checks.test_plan_bill__follows_every_message(with_own(plan_bill=bill_of(float)))
    with pytest.raises(AssertionError, match="returned a float"):
        checks.expect_exact(19.0, 19)


def test_seconds_and_rates_may_be_floats():
    def as_float(function):
        return lambda *arguments: float(function(*arguments))

    names = ("latency_s", "throughput_per_s", "decode_steps_per_s", "makespan_s")
    own = with_own(**{name: as_float(getattr(solution, name)) for name in names})
    checks.test_latency_s__gains_nothing_from_stages(own)
    checks.test_throughput_per_s__nears_that_of_p_devices(own)
    checks.test_decode_steps_per_s__starves_with_few_in_flight(own)
    checks.test_makespan_s__follows_the_slowest_stage(own)
    with pytest.raises(AssertionError, match="off by"):
        checks.expect_seconds(0.1 + 1e-9, Fraction(1, 10), "")


def test_tuples_are_as_good_as_lists():
    def in_tuples(function):
        return lambda *arguments: tuple(map(tuple, function(*arguments)))

    own = {name: in_tuples(getattr(solution, name)) for name in ("schedule_grid", "replay")}
    own["one_f_one_b_order"] = in_tuples(solution.one_f_one_b_order)
    checks.test_schedule_grid__starts_none_early_or_late(with_own(**own))
    checks.test_replay__starts_an_op_when_its_inputs_are_there(with_own(**own))
    checks.test_one_f_one_b_order__is_what_torch_runs(with_own(**own))


def test_a_wrong_number_is_told_in_the_type_it_came_in():
    with pytest.raises(
        AssertionError, match=r"Fraction \(Fraction\(18, 1\)\), .*Fraction\(19, 1\)"
    ):
        checks.expect_exact(Fraction(18), 19)
    with pytest.raises(
        AssertionError, match=r"an int \(2\), expected a Fraction \(Fraction\(5, 2\)"
    ):
        checks.expect_exact(2, Fraction(5, 2))
    with pytest.raises(AssertionError, match="lacks the key 'a'"):
        checks.expect_exact({}, {"a": 1})
    with pytest.raises(AssertionError, match="returned None"):
        checks.expect_exact(None, {"a": 1})


class Op(NamedTuple):
    kind: str
    stage: int
    microbatch: int


def named(order):
    return [[Op(*op) for op in ops] for ops in order]


def test_ops_may_be_named_tuples():
    own = with_own(
        one_f_one_b_order=lambda p, m: named(solution.one_f_one_b_order(p, m)),
        interleaved_order=lambda *sizes: named(solution.interleaved_order(*sizes)),
        replay=lambda order, *ticks: solution.replay(named(order), *ticks),
    )
    checks.test_one_f_one_b_order__is_what_torch_runs(own)
    checks.test_interleaved_order__is_what_torch_runs(own)
    checks.test_replay__starts_an_op_when_its_inputs_are_there(own)


def swapped(p, m):
    order = solution.one_f_one_b_order(p, m)
    if (p, m) == (3, 3):
        order[1][2], order[1][3] = order[1][3], order[1][2]
    return order


def test_a_wrong_order_is_told_by_rank_and_op():
    told = "rank 1 runs F of microbatch 2 on stage 1 as op number 2, expected B of microbatch 0"
    with pytest.raises(AssertionError, match=told):
        checks.test_one_f_one_b_order__is_what_torch_runs(with_own(one_f_one_b_order=swapped))


def test_a_wrong_grid_is_told_by_rank_and_tick():
    grid = [[("F", 0, 0), None], [None, ("F", 1, 0)]]
    for wrong, told in [
        (
            [[("F", 0, 0), None], [("F", 1, 0), None]],
            "rank 1 runs F of .* in tick 0, expected noth",
        ),
        ([[("F", 0, 0)], [None, ("F", 1, 0)]], "rank 0.s row ends before tick 1, expected nothing"),
        ([[("F", 0, 0), None], [None, 7]], "rank 1 runs 7, which is no .kind, stage, microbatch."),
        ([[("F", 0, 0), None]], "expected a list of 2 lists, one per rank"),
        (None, "returned None, expected a list"),
    ]:
        with pytest.raises(AssertionError, match=told):
            checks.expect_grid(wrong, grid)


def everything_refused(*arguments):
    raise ValueError(f"p m grid budget {arguments}")


def test_who_refuses_everything_earns_no_points_for_refusals():
    for name in checks.refused():
        with pytest.raises((ValueError, AssertionError), match="p m grid budget"):
            checks.expect_refusals(with_own(**{name: everything_refused}), checks.refused())


def test_refusals_may_be_told_in_own_words():
    def bubble_fraction(p, m):
        for name, value in (("p", p), ("m", m)):
            if value < 1:
                raise ValueError(f"give {name} as 1 or more, not {value}")
        return solution.bubble_fraction(p, m)

    checks.expect_refusals(with_own(bubble_fraction=bubble_fraction), checks.refused())


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("p", 1, True),
        ("p", 2.5, False),
        ("p", True, False),
        ("model_s", Fraction(1, 3), True),
        ("model_s", 0, False),
        ("model_s", float("inf"), False),
        ("model_s", "1", False),
        ("hop_s", 0, True),
        ("hop_s", float("nan"), False),
        ("stage_s", (1, 2.5), True),
        ("stage_s", [1, True], False),
        ("budget", 0.5, True),
        ("budget", float("nan"), False),
        ("grid", [[None]], True),
        ("grid", [3], False),
        ("order", [[], [("B", 0, 0)]], True),
        ("order", [[("X", 0, 0)]], False),
        ("order", [[]], False),
    ],
)
def test_what_require_accepts(name, value, good):
    if good:
        solution.require(**{name: value})
    else:
        with pytest.raises(ValueError, match=f"^{name} must be .*, not "):
            solution.require(**{name: value})
