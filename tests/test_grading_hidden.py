"""Hidden numbers find answers that were written down, and are fair to permitted ones."""

import random
import subprocess
import sys
import types
from fractions import Fraction

import numpy as np
import pytest

from grading.hidden import Numbers, agrees_elsewhere, changed
from grading.limits import MIB, Limits
from grading.remote import KEPT_OUTPUT, RemoteLab
from tests.conftest import ROOT

PUBLISHED = [(2, 3), (4, 8), (5, 2)]


def bubble(p, m):
    if p < 1 or m < 1:
        raise ValueError("at least 1")
    return Fraction(p - 1, p + m - 1)


def module(function):
    return types.SimpleNamespace(bubble=function)


def calls_of(function):
    return [("bubble", args, {}, ("value", function(*args))) for args in PUBLISHED]


def elsewhere(*arguments):
    """False, None if no function could be compared, or True."""
    agrees, reasons = agrees_elsewhere(*arguments)
    return (True if "" in reasons.values() else None) if agrees else False


def verdict(function, seed=b"seed"):
    return elsewhere(calls_of(function), module(bubble), module(function), seed)


def test_a_table_of_published_answers_is_found():
    table = {args: bubble(*args) for args in PUBLISHED}
    assert verdict(lambda *args: table.get(args, Fraction(0))) is False


def test_the_same_function_written_differently_agrees():
    assert verdict(lambda p, m: 1 - Fraction(m, p + m - 1)) is True


def test_another_way_to_write_the_answer_is_compared_all_the_same():
    assert verdict(lambda p, m: float(bubble(p, m))) is True


def test_one_odd_answer_exempts_no_other_call():
    def cheat(p, m):
        return float(bubble(p, m)) if (p, m) == (2, 3) else dict(known)[p, m]

    known = {args: bubble(*args) for args in PUBLISHED}
    calls = calls_of(cheat) + [("bubble", (0, 1), {}, ("raises", "UnicodeError"))]
    remote = module(lambda *args: known.get(args, Fraction(0)))
    assert elsewhere(calls, module(bubble), remote, b"seed") is False


def test_an_array_without_axes_is_the_number_in_it():
    solution = types.SimpleNamespace(half=lambda n: n / 2)
    remote = types.SimpleNamespace(half=lambda n: np.array({3: 1.5}.get(n, 0.0)))
    calls = [("half", (3,), {}, ("value", np.array(1.5)))]
    assert elsewhere(calls, solution, remote, b"seed") is False


def test_an_endless_search_for_an_acceptable_number_ends():
    def picky(p, m):
        if (p, m) not in PUBLISHED:
            raise ValueError("not published")
        return p

    assert elsewhere(calls_of(picky), module(picky), module(picky), b"seed") is None


def test_numpy_scalars_are_the_numbers_they_stand_for():
    solution = types.SimpleNamespace(double=lambda n: 2 * n)
    remote = types.SimpleNamespace(double=lambda n: np.int64(2 * n))
    calls = [("double", (3,), {}, ("value", np.int64(6)))]
    assert elsewhere(calls, solution, remote, b"seed") is True


def gather(num_ranks, rank):
    """Sends first. A schedule: any order of the sends is as good."""
    return [["send", peer] for peer in range(num_ranks) if peer != rank] + [["gemm", rank]]


def schedule_verdict(function, seed, sizes=(1, 2, 3, 4, 8)):
    pairs = [(n, rank) for n in sizes for rank in range(n)]
    calls = [("gather", pair, {}, ("value", function(*pair))) for pair in pairs]
    solution = types.SimpleNamespace(gather=gather)
    return elsewhere(calls, solution, types.SimpleNamespace(gather=function), seed)


SEEDS = [bytes([n]) for n in range(30)]


def test_another_permitted_order_is_not_held_against_it():
    """With one rank both say the same: a changed call would compare two different right answers."""
    for seed in SEEDS:
        assert schedule_verdict(lambda n, r: gather(n, r)[:-1][::-1] + [["gemm", r]], seed) is None


def test_a_table_of_the_solutions_schedules_is_found():
    known = {(n, rank): gather(n, rank) for n in (1, 2, 3, 4, 8) for rank in range(n)}

    def refuses(n, rank):
        return known[n, rank]

    for seed in SEEDS:
        assert schedule_verdict(lambda n, rank: known.get((n, rank), []), seed) is False
        assert schedule_verdict(refuses, seed) is False


def test_another_order_the_first_time_only_is_a_whim():
    known = {(n, rank): gather(n, rank) for n in (1, 2, 3, 4, 8) for rank in range(n)}

    for seed in SEEDS:
        asked = []

        def whim(n, rank, asked=asked):
            asked.append((n, rank))
            answer = known.get((n, rank), [])
            return answer[::-1] if asked == [(1, 0), (2, 0)] else answer

        assert schedule_verdict(whim, seed) is False


def test_arguments_that_make_no_sense_are_not_asked():
    def strict(n, rank):
        assert 0 <= rank < n <= 8
        return gather(n, rank)

    for seed in SEEDS:
        assert schedule_verdict(strict, seed) is True


def test_a_refusal_is_forgiven_to_one_that_is_right_elsewhere():
    def strict(p, m):
        if m > 9:
            raise ValueError("too many")
        return bubble(p, m)

    calls = [("bubble", (p, 6), {}, ("value", bubble(p, 6))) for p in range(2, 6)]
    for seed in SEEDS:
        assert elsewhere(calls, module(bubble), module(strict), seed) is True


def test_an_int_is_as_good_as_the_fraction():
    def hops(p, n):
        return {"bytes": Fraction(p * n, 4) if p * n % 4 else p * n // 4}

    def right(p, n):
        return {"bytes": Fraction(p * n, 4)}

    calls = [("hops", (p, 6), {}, ("value", hops(p, 6))) for p in range(2, 6)]
    solution, remote = (types.SimpleNamespace(hops=function) for function in (right, hops))
    for seed in SEEDS:
        assert elsewhere(calls, solution, remote, seed) is True


def test_numbers_inside_lists_may_change_to_nonsense_now_and_then():
    def right(order):
        return sum(order)

    def picky(order):
        return sum(order) if order == sorted(order) else None

    calls = [("total", ([1, 5, 9, n],), {}, ("value", 15 + n)) for n in range(10, 20)]
    solution = types.SimpleNamespace(total=right)
    for function, verdicts in ((right, {True}), (picky, {True, False}), (lambda order: 0, {False})):
        remote = types.SimpleNamespace(total=function)
        found = {elsewhere(calls, solution, remote, seed) for seed in SEEDS}
        assert found == verdicts or found < verdicts


def test_no_function_is_called_more_often_than_published():
    made = []

    def slow(p, m):
        made.append((p, m))
        return bubble(p, m)

    calls = [("bubble", (4, 8), {}, ("value", bubble(4, 8)))]
    assert elsewhere(calls, module(bubble), module(slow), b"seed") is True
    assert len(made) == 1 and made[0] != (4, 8)


def test_one_number_changes_and_the_same_seed_changes_the_same():
    arguments = (([1, 2.5, "x", None, True],), {"shape": {"hidden": 64}})
    first = changed(arguments, random.Random(3))
    assert first == changed(arguments, random.Random(3)) != arguments
    assert first[0][0][2:] == ["x", None, True]
    assert len({repr(changed(arguments, random.Random(n))) for n in range(30)}) > 5


def test_other_seeds_draw_other_numbers_and_the_same_secret_the_same():
    original, plain = np.random.default_rng, random.Random
    try:
        numbers = Numbers()
        published = np.random.default_rng([7, 2]).random()
        assert published == original([7, 2]).random() and numbers.draws == 1
        numbers.secret = b"one"
        hidden = np.random.default_rng([7, 2]).random()
        assert hidden != published and hidden == np.random.default_rng([7, 2]).random()
        numbers.secret = b"two"
        assert np.random.default_rng([7, 2]).random() != hidden
    finally:
        np.random.default_rng, random.Random = original, plain


# --- what is printed before the hidden checks -------------------------------------------------


class Printer:
    """A worker with so many chunks of output waiting, or without end."""

    output = "its pipe"

    def __init__(self, chunks=None):
        self.chunks, self.read = chunks, 0

    def poll(self, event, timeout_s):
        return {self.output} if self.read != self.chunks else set()

    def read_output(self):
        self.read += 1
        return b"x" * 65536


@pytest.mark.timeout(20)
@pytest.mark.parametrize("hidden", [False, True])
def test_draining_takes_what_waits_and_no_more_than_a_check_may_print(hidden):
    for printer, chunks in ((Printer(), 17), (Printer(3), 3), (Printer(0), 0)):
        remote = RemoteLab(b"", None, b"", Limits(output_bytes=MIB), None, "starter.py")
        remote.begin_check(hidden=hidden)
        remote._idle[None] = printer
        remote.drain()
        assert printer.read == chunks  # 16 are 1 MiB
        assert len(remote.output) == (KEPT_OUTPUT if chunks and not hidden else 0)


def refusing(known):
    """Refuses p < 1, or only what is in `known`."""

    def share(p):
        if (p in known) if known else p < 1:
            raise ValueError("p must be at least 1")
        return 1 / p if p else 0.0

    return share


def test_refusals_learned_by_heart_are_told_from_a_rule():
    published = [("share", (p,), {}, ("raises", "ValueError")) for p in (0, -1, -4)]
    rule = module_of(refusing(None))
    assert elsewhere(published, rule, module_of(refusing(None)), b"seed") is not False
    assert elsewhere(published, rule, module_of(refusing({0, -1, -4})), b"seed") is False


def module_of(share):
    return types.SimpleNamespace(share=share)


def test_both_kinds_of_generator_get_the_secret():
    code = (
        "import random, numpy as np\n"
        "from grading.hidden import Numbers\n"
        "n = Numbers()\n"
        "def draw(): return random.Random(4).random(), float(np.random.default_rng(4).random())\n"
        "known = draw()\n"
        "assert n.draws == 2 and known == draw()\n"
        "n.secret = b'secret'\n"
        "assert not set(known) & set(draw()) and draw() == draw()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
