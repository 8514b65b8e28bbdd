"""Checks whose failure is a sentence for the learner: what came back, what was expected, which
idea to look at again. What was called stands in front of it: labkit.recorder knows the last call.

    expect_close(lab.row_parallel(x, W, 4), x @ W.T, atol=1e-12, idea="add the partial sums")

numpy is imported where arrays are compared, and nowhere else: two labs run without it.
"""

import contextlib
import math
import numbers
import re
from fractions import Fraction

from labkit.recorder import brief, is_array, plain_number


class Unexpected(AssertionError):
    """What came back is not what was expected.

    part: which part of the result is spoken of. drawing: lines to be shown as they are.
    calls_after: how many calls were made after the one that is spoken of.
    """

    calls_after = 0

    def __init__(self, text, part="", drawing=""):
        super().__init__(text)
        self.part, self.drawing = part, drawing


# of the labs' collectives.py; a graded hand-in's comes as these words alone
NO_ARRAYS = re.compile(r"\w+: (inside one rank call|give a list with|rank \d+ brings an? )")


@contextlib.contextmanager
def looking_at(idea):
    """Around a call of the learner's: what it raises, such as numpy's words, keeps the idea.

    A collective that was given another kind of thing than arrays says itself what to give it.
    """
    __tracebackhide__ = True
    try:
        yield
    except (NotImplementedError, AssertionError):
        raise
    except Exception as error:
        if not getattr(error, "__notes__", None) and not NO_ARRAYS.match(str(error)):
            error.add_note(f"Look again at: {idea}.")
        raise


@contextlib.contextmanager
def of_rank(rank, size):
    """Around the check of one of the `size` ranks that were called last: its call is the shown."""
    try:
        yield
    except Unexpected as error:
        error.calls_after = size - 1 - rank
        raise


def expect_close(actual, expected, *, atol: float, idea="", part="", units=True) -> None:
    """The same array (or number), elementwise within `atol`.

    Refuses other types, shapes and kinds of dtype, masked arrays, NaN and infinity. part: which
    part of the result `actual` is, such as "['total_bytes']". units: whether a unit may have been
    confused, so that a factor such as 8 or 1000 is worth a guess; percent always may.
    """
    __tracebackhide__ = True  # --pdb stops in the check
    if is_array(expected) and expected.ndim or isinstance(expected, (list, tuple)):
        return _expect_close_array(actual, expected, atol, idea, part)
    expected, given = float(expected), plain_number(actual)
    if not math.isfinite(expected):
        raise ValueError("the expected value is not finite; nothing could be compared with it")
    if is_array(given) and given.dtype.kind in "fiu":
        _fail(f"returned {_shape(given)}, expected a single number", idea, part)
    if not _is_number(given):
        _fail(f"returned {describe(actual)}, expected a number", idea, part)
    try:
        got = float(given)
    except OverflowError:
        _fail(f"returned {describe(actual)}, expected {expected:.6g}", idea, part)
    if not math.isfinite(got):
        _fail(f"returned {got}; every value should be finite", idea, part)
    if (error := abs(got - expected)) > atol:
        texts = _apart(got, expected)
        text = f"off by {error:.3g}: got {texts[0]}, expected {texts[1]}"
        _fail(text + _ratio(got, expected, units), idea, part)


def _expect_close_array(actual, expected, atol, idea, part):
    __tracebackhide__ = True
    import numpy as np

    expected = np.asarray(expected)
    if not np.isfinite(expected).all():
        raise ValueError("the expected value is not finite; nothing could be compared with it")
    if type(actual) is not np.ndarray:
        _fail(f"returned {describe(actual)}, expected {_shape(expected)}", idea, part)
    actual = np.array(actual, copy=True).view(np.ndarray)
    if actual.shape != expected.shape:
        extra = ""
        if actual.shape == expected.shape[::-1] and actual.ndim > 1:
            extra = " (its transpose)"
        _fail(f"returned {_shape(actual)}, expected {_shape(expected)}{extra}", idea, part)
    wrong_kind = expected.dtype.kind == "f" and actual.dtype.kind != "f"
    if actual.dtype.kind not in "fiu" or wrong_kind:
        _fail(f"returned dtype {actual.dtype}, expected {expected.dtype}", "", part)
    if not np.isfinite(actual).all():
        at = np.argwhere(~np.isfinite(actual))[0]
        text = f"returned {actual[tuple(at)]}{_place(at)}; every value should be finite"
        _fail(text, idea, part)
    error = np.abs(actual - expected)
    if error.size and error.max() > atol:
        at = np.unravel_index(int(error.argmax()), error.shape)
        got, want = _apart(float(actual[at]), float(expected[at]))
        count = f"; {int((error > atol).sum())} of {error.size} elements differ"
        dtypes = actual.dtype, expected.dtype
        if dtypes[0].kind == dtypes[1].kind == "f" and dtypes[0].itemsize < dtypes[1].itemsize:
            count += f"; its dtype is {dtypes[0]}, expected {dtypes[1]}"
        text = f"off by {error.max():.3g}{_place(at)}: got {got}, expected {want}{count}"
        _fail(text + _pattern(actual, expected, atol), idea, part)


def alike(array, other, atol) -> bool:
    """Whether an array holds the numbers of another, in any layout: what a sum over ranks takes."""
    import numpy as np

    if not is_array(array) or array.dtype.kind not in "biufc" or array.size != other.size:
        return False
    return np.allclose(np.sort(array, None), np.sort(other, None), rtol=0, atol=atol)


def expect_equal(actual, expected, *, idea="", part="") -> None:
    """Exactly the same plain value, types included: 0.5 is not Fraction(1, 2), True is not 1.

    A list or an array is as good as a tuple, a subclass as its base; a numpy scalar is its Python
    number. An exception in the place of a value is said to have been raised. Where the type alone
    is wrong, the sentence ends there: the idea is not what went wrong.
    """
    __tracebackhide__ = True  # --pdb stops in the check
    difference = _difference(actual, expected, "")
    if difference:
        _fail(difference, "" if isinstance(difference, _TypeAlone) else idea, part)


class _TypeAlone(str):
    """A difference of type: between equal numbers, or of what holds them."""


def expect_error(kind, function, *arguments, mentions=(), idea="", **keywords) -> None:
    """`function(*arguments, **keywords)` raises `kind`; the message mentions each of `mentions`."""
    __tracebackhide__ = True  # --pdb stops in the check
    try:
        result = function(*arguments, **keywords)
    except NotImplementedError:
        raise
    except kind as error:
        missing = [word for word in map(str, mentions) if not _names(str(error), word)]
        if missing:
            words = ", ".join(map(repr, missing))
            text = f'raised {kind.__name__}("{error}"), which does not name {words}'
            _fail(text, idea)
    except Exception as error:
        text = f"raised {describe(error)}; expected a {kind.__name__}"
        _fail(text, idea)
    else:
        _fail(f"returned {describe(result)}, expected a {kind.__name__}", idea)


def _fail(text, idea, part=""):
    __tracebackhide__ = True
    hint = f" Look again at: {idea}{'' if idea.endswith('?') else '.'}" if idea else ""
    raise Unexpected(f"{text}{'' if text.endswith('?') else '.'}{hint}", part)


def _names(text, word):
    """Whether it stands there, be it as a plural; not only as a part of a longer name or number."""
    before = {"number": r"(?<!\d)(?<!\d\.)", "name": r"(?<![^\W\d])", "": ""}[_kind(word[0])]
    after = {"number": r"(?!\.?\d)", "name": r"s?(?!\w)", "": ""}[_kind(word[-1])]
    return re.search(before + re.escape(word) + after, text) is not None


def _kind(letter):
    return "number" if letter.isdigit() else "name" if letter.isalpha() else ""


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _shape(array):
    return f"an array of shape {list(array.shape)}" if array.ndim else "a single number"


def _place(index):
    """` at [1, 2]` of an array; a single number has no place."""
    return f" at {[int(i) for i in index]}" if len(index) else ""


def _apart(*numbers):
    """Numbers as text, with as many digits as tell them apart, 6 at least."""
    for digits in range(6, 18):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(texts):
            break
    return texts


def describe(value):
    """A value, or what was raised, as a failure names it."""
    if value is None:
        return "None"
    if isinstance(value, Exception):
        return ": ".join(filter(None, (type(value).__name__, str(value))))
    if is_array(value):
        masked = type(value).__name__ == "MaskedArray"
        return "a masked array" if masked else f"an array of shape {list(value.shape)}"
    described = kind_of(value)
    if isinstance(value, (list, tuple)) and value and all(map(is_array, value)):
        return f"{described} of {len(value)} arrays"
    text = brief(value)  # `<generator object f at 0x7f...>` says nothing more
    return described if text.startswith("<") else f"{described} ({text})"


def kind_of(value):
    """`a list`, `an int`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


UNITS = {  # actual / expected, or its inverse: what may have been confused
    8.0: "bits and bytes?",
    1e3: "a unit 1000 times larger, ms for s, KB for bytes?",
    1e6: "a unit a million times larger, us for s, MB for bytes?",
    1e9: "a unit 1e9 times larger, ns for s, GB for bytes?",
    1.024: "KB and KiB?",
    1.024**2: "MB and MiB?",
    1.024**3: "GB and GiB?",
    1.024**4: "TB and TiB?",
    1024.0: "KiB and bytes?",
    1024.0**2: "MiB and bytes?",
    1024.0**3: "GiB and bytes?",
    100.0: "percent and a share of 1?",
}


def _ratio(actual, expected, units=True):
    """A sentence when a number is a simple multiple of the expected one."""
    if not expected or not actual:
        return ""
    ratio = actual / expected
    for factor, told in (UNITS if units else {100.0: UNITS[100.0]}).items():
        for name, value in ((f"{factor:g}", factor), (f"1/{factor:g}", 1 / factor)):
            if abs(ratio / value - 1) < 1e-9:
                return f"; it is {name} times the expected one: {told}"
    long = actual != float(f"{actual:.4g}")  # of five digits and more it is no chance
    if long and any(actual == round(expected, digits) for digits in range(13)):
        return "; it is the expected one, rounded"
    factor = _simple(ratio, 16)
    return f"; it is {factor} times the expected one" if factor else ""


def _simple(ratio, most):
    """The fraction of two numbers up to `most` that it is, but for rounding; None for 0 and 1."""
    factor = Fraction(ratio).limit_denominator(most) if math.isfinite(ratio) else 0
    if factor in (0, 1) or abs(factor.numerator) > most or abs(ratio / factor - 1) >= 1e-9:
        return None
    return factor


def _pattern(actual, expected, atol):
    """A sentence when the result is a simple multiple of, or a constant away from, expected."""
    if expected.size < 2:
        return ""
    scale = float(abs(expected).max())
    if scale == 0:
        return ""
    factor = _simple(float((actual * expected).sum() / (expected * expected).sum()), 8)
    if factor and abs(actual - float(factor) * expected).max() <= 8 * atol + 1e-9 * scale:
        return f"; every element is {factor} times the expected one"
    shift = actual - expected
    if shift.std() <= atol and abs(shift.mean()) > atol:
        return f"; every element is {shift.mean():+.6g} away"
    return ""


def _difference(actual, expected, where):
    """A sentence about the first difference, or '' when there is none."""
    at = f" at {where}" if where else ""
    row = isinstance(expected, (list, tuple))
    if row and is_array(actual) and actual.shape[:1] == (len(expected),):
        actual = list(actual)  # row by row: a hand-in's array may have millions that are empty
    if row and isinstance(actual, (list, tuple)):
        return _difference_of_rows(actual, expected, where, at)
    if isinstance(expected, dict) and isinstance(actual, dict):
        if missing := [key for key in expected if key not in actual]:
            return f"lacks the key {missing[0]!r}{at}"
        if extra := [key for key in actual if key not in expected]:
            return f"has the unexpected key {extra[0]!r}{at}"
        given = {key: key for key in actual}
        for key in expected:
            if text := _difference(given[key], key, " of ".join(filter(None, ("the keys", where)))):
                return text
            if text := _difference(actual[key], expected[key], f"{where}[{key!r}]"):
                return text
        return ""
    actual = plain_number(actual)
    subclass = isinstance(actual, type(expected)) and not isinstance(actual, bool)
    if (type(actual) is type(expected) or subclass) and actual == expected:
        return ""
    verb = "raised" if isinstance(actual, Exception) else "returned"
    text = f"{verb} {describe(actual)}{at}, expected {describe(expected)}"
    equal = _is_number(actual) and _is_number(expected) and math.isclose(actual, expected)
    return _TypeAlone(text) if equal or row and hasattr(actual, "__iter__") else text


def _difference_of_rows(actual, expected, where, at):
    for index, (a, e) in enumerate(zip(actual, expected, strict=False)):
        if text := _difference(a, e, f"{where}[{index}]"):
            break
    else:
        index, text = min(len(actual), len(expected)), ""
    if len(actual) == len(expected):
        return text
    texts = brief(actual), brief(expected)
    if not any(words.endswith("...") for words in texts):
        return f"returned {texts[0]}{at}, expected {texts[1]}"
    rows = [f"{brief(row[index])}" if index < len(row) else "no more" for row in (actual, expected)]
    count = f"{len(actual)} entr{'y' if len(actual) == 1 else 'ies'}"
    return (  # too long to be read
        f"returned {count}{at}, expected {len(expected)}; the first difference is "
        f"at {where}[{index}]: {rows[0]}, expected {rows[1]}"
    )
