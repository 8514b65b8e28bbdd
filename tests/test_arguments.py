"""arguments.py: what an argument must be, and the capstone's functions, which refuse the rest."""

import inspect
import random
from fractions import Fraction

import numpy as np
import pytest

from labkit.loading import choose_lab, find_labs, load_module

LAB = choose_lab("capstone", find_labs())
CAPSTONE = load_module(LAB.file("solution"))
arguments = load_module(LAB.path.parent / "arguments.py")
NUMBERS = [1, 2.0, 0.5, Fraction(1, 3), np.float64(7), np.int64(3), 0, -1]
NO_NUMBERS = [True, "1", None, float("nan"), float("inf"), [1], 1j]


@pytest.mark.parametrize("name", ["COUNT", "ABOVE_ZERO", "ZERO_OR_MORE", "PART"])
def test_a_kind_accepts_what_its_words_say(name):
    _, fits = getattr(arguments, name)
    expected = {
        "COUNT": [1, 2.0, np.float64(7), np.int64(3)],
        "ABOVE_ZERO": NUMBERS[:-2],
        "ZERO_OR_MORE": NUMBERS[:-1],
        "PART": [1, 0.5, Fraction(1, 3)],
    }[name]
    assert [value for value in (*NUMBERS, *NO_NUMBERS) if fits(value)] == expected


def test_a_refusal_names_argument_and_value_and_stands_before_the_function():
    @arguments.checked(arguments.ABOVE_ZERO, ranks=arguments.COUNT, notes=arguments.ANYTHING)
    def function(seconds, ranks, notes=None):
        """Its words."""
        return seconds, ranks, notes

    assert function(0.5, ranks=2, notes="-") == (0.5, 2, "-") and function.__doc__ == "Its words."
    for args, kwargs, sentence in [
        ((0, 1), {}, "seconds must be a number above 0, not 0"),
        ((1,), {"ranks": 2.5}, "ranks must be a whole number, 1 or more, not 2.5"),
    ]:
        with pytest.raises(ValueError) as refused:
            function(*args, **kwargs)
        assert str(refused.value) == sentence


LAYER = {"kind": "state", "count": 1, "elements": 8, "element_bytes": 2}
MODEL = {"num_heads": 8, "num_kv_heads": 8, "num_layers": 4, "latent": False, "widths": {}}
GOOD = {"model": MODEL, "layers": [LAYER], "utilization": 0.9, "top_k": 2, "num_experts": 8}
GUARDED = """split_faults sequence_kv_bytes memory_verdicts touched_bytes decode_compute_s
ridge_tokens prefill_compute_s serve cost_per_million_tokens""".split()


@pytest.mark.parametrize("name", GUARDED)
def test_the_capstone_refuses_what_is_no_quantity(name):
    function, draw = getattr(CAPSTONE, name), random.Random(name)
    good = {key: GOOD.get(key, 3) for key in inspect.signature(function).parameters}
    function(**good)
    for key in good.keys() - {"model", "layers"}:
        with pytest.raises(ValueError, match=f"{key} must be .*, not "):
            function(**good | {key: draw.choice([-1, -0.5, *NO_NUMBERS])})
