"""Lab 04's checks on other right answers: what is right must pass, however it is written."""

from fractions import Fraction
from types import SimpleNamespace

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
    checks.test_one_slow_stage_sets_the_pace(with_own(makespan_s=makespan_from_a_fraction))


@pytest.mark.parametrize("kind", [int, Fraction])
def test_a_bill_may_hold_whole_numbers_as_either_type(kind):
    checks.test_plan_bill(with_own(plan_bill=bill_of(kind)))


def test_floats_are_no_exact_numbers():
    with pytest.raises(AssertionError, match="returned a float"):
        checks.test_plan_bill(with_own(plan_bill=bill_of(float)))
    with pytest.raises(AssertionError, match="returned a float"):
        checks.expect_exact(19.0, 19, call="f()")


def test_a_wrong_number_is_told_in_the_type_it_came_in():
    with pytest.raises(
        AssertionError, match=r"Fraction \(Fraction\(18, 1\)\), .*Fraction\(19, 1\)"
    ):
        checks.expect_exact(Fraction(18), 19, call="f()")
    with pytest.raises(
        AssertionError, match=r"an int \(2\), expected a Fraction \(Fraction\(5, 2\)"
    ):
        checks.expect_exact(2, Fraction(5, 2), call="f()")
    with pytest.raises(AssertionError, match="lacks the key 'a'"):
        checks.expect_exact({}, {"a": 1}, call="f()")
    with pytest.raises(AssertionError, match="returned None"):
        checks.expect_exact(None, {"a": 1}, call="f()")
