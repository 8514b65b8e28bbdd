"""Whatever ordinary numpy and Python give at home, they give in the sandbox."""

from pathlib import Path

import numpy as np
import pytest

from grading.cell import Limits
from grading.proxy import Lab
from labkit.loading import choose_lab, find_labs, load_module

HERE = Path(__file__).parent
LINES = (HERE / "idioms.txt").read_text().splitlines()
IDIOMS = [line for line in LINES if line and not line.startswith("#")]
LAB = choose_lab("lab-03", find_labs())
pytestmark = pytest.mark.isolation


def arguments():
    rng = np.random.default_rng(5)
    x, W = rng.standard_normal((4, 6)), rng.standard_normal((8, 6))
    v = np.array([3, -1, 4, 1, 5])
    return x, W, v, 3, [3, 1, 2, 5], ["tensor", "rank", "rank"], {"b": 2, "a": 1.5, "c": -3}


def source():
    """One function per idiom, `idiom_0` and so on."""
    head = "import numpy as np\n"
    for n, idiom in enumerate(IDIOMS):
        head += f"\n\ndef idiom_{n}(x, W, v, n, items, words, table):\n"
        if idiom.startswith("do "):
            head += f"    h, R, a, b = x.copy(), None, 1, 2\n    {idiom[3:]}\n    return h, R\n"
        else:
            head += f"    return {idiom}\n"
    return head


def plain(value):
    """Subclasses of tuple, list and dict as what they are; arrays as their numbers."""
    if isinstance(value, (list, tuple)):
        return (list if isinstance(value, list) else tuple)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return "array", value.dtype.name, value.shape, np.asarray(value).tobytes()
    return type(value).__name__, repr(value)


def came_to(function):
    """What it returned, or the builtin exception nearest to what it raised."""
    try:
        return plain(function(*arguments()))
    except Exception as error:
        return next(k for k in type(error).__mro__ if k.__module__ == "builtins").__name__


def test_the_idioms_are_many():
    assert len(set(IDIOMS)) == len(IDIOMS) >= 150


@pytest.mark.timeout(120)
def test_every_idiom_gives_in_the_sandbox_what_it_gives_at_home(tmp_path):
    file = tmp_path / "labs" / "lab" / "starter.py"
    file.parent.mkdir(parents=True)
    file.write_text(source())
    home, graded = load_module(file), Lab(LAB, source().encode(), Limits(), None)
    different = []
    for n, idiom in enumerate(IDIOMS):
        graded._begin_check()
        here, there = (came_to(getattr(place, f"idiom_{n}")) for place in (home, graded))
        if here != there:
            different.append((idiom, here, there))
    graded._end()
    assert different == []


CHANGES = ["x.shape = 3, 2", "x.dtype = 'int64'", "x[0, 0] = 9", "parts[0] = parts[0].reshape(6)"]
CHANGES += ["parts[0] = parts[0].tobytes()", "parts.pop()", "numbers[0] = 1", "numbers[1] = 2"]
CHANGES += ["words['b'] = words.pop('b')", "words['a'] = np.float64(1)"]


def changeable(change):
    """Its arguments; where it touches no array there is none, which the cell compares quickly."""
    arrays = (np.arange(6.0).reshape(2, 3), [np.ones((2, 3))], b"12")
    x, parts, text = arrays if change[0] in "xp" else (None, None, "12")
    return x, parts, [True, 2.0], {"b": text, "a": 1.0}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_call_does_to_its_arguments_is_seen(change, tmp_path):
    file = tmp_path / "labs" / "lab" / "starter.py"
    file.parent.mkdir(parents=True)
    file.write_text(f"import numpy as np\n\n\ndef f(x, parts, numbers, words):\n    {change}\n")
    here = changeable(change)
    graded = Lab(LAB, file.read_bytes(), Limits(), None)
    graded._begin_check()
    try:
        graded.f(*here)
    except (AssertionError, pytest.fail.Exception):
        return  # "changed an argument"
    finally:
        graded._end()
    assert repr(plain(here)) != repr(plain(changeable(change)))
