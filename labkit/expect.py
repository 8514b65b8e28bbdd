"""Checks whose failure is a sentence for the learner: what was called, what came back, what was
expected, which idea to look at again."""

import reprlib
from fractions import Fraction

import numpy as np

from labkit.traced import TracedArray


def describe_call(name: str, /, **arguments) -> str:
    """`row_parallel(x[5, 12], W[7, 12], num_ranks=4)`: arrays by shape, the rest by value."""
    words = []
    for key, value in arguments.items():
        if isinstance(value, np.ndarray):
            words.append(f"{key}{list(value.shape)}")
        elif type(value) is float:  # 0.00064, not 0.0006399999999999999
            words.append(f"{key}={float(f'{value:.12g}')!r}")
        else:
            words.append(f"{key}={_brief(value)}")
    return f"{name}({', '.join(words)})"


# only the beginning is shown: of a large value, only that is written down
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = 30
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 130


def expect_close(actual, expected, *, call: str, atol: float, idea: str = "") -> None:
    """The same array (or number), elementwise within `atol`.

    Refuses other types, shapes and kinds of dtype, masked arrays, NaN and infinity.
    """
    expected = np.asarray(expected)
    if expected.ndim == 0 and _is_number(actual):
        try:
            actual = np.asarray(float(actual) if isinstance(actual, Fraction) else actual)
        except OverflowError:
            _fail(call, f"returned {_describe(actual)}, expected {float(expected):.6g}", idea)
    elif type(actual) not in (np.ndarray, TracedArray):
        wanted = _shape(expected) if expected.ndim else "a number"
        _fail(call, f"returned {_describe(actual)}, expected {wanted}", idea)
    actual = np.array(actual, copy=True).view(np.ndarray)
    if actual.shape != expected.shape:
        extra = ""
        if actual.shape == expected.shape[::-1] and actual.ndim > 1:
            extra = " (its transpose)"
        _fail(call, f"returned {_shape(actual)}, expected {_shape(expected)}{extra}", idea)
    wrong_kind = expected.ndim and expected.dtype.kind == "f" and actual.dtype.kind != "f"
    if actual.dtype.kind not in "fiu" or wrong_kind:
        _fail(call, f"returned dtype {actual.dtype}, expected {expected.dtype}", idea)
    if not np.isfinite(actual).all():
        at = [int(i) for i in np.argwhere(~np.isfinite(actual))[0]]
        _fail(call, f"returned {actual[tuple(at)]} at {at}; every value should be finite", idea)
    error = np.abs(actual - expected)
    if error.size and error.max() > atol:
        at = np.unravel_index(int(error.argmax()), error.shape)
        got, want = float(actual[at]), float(expected[at])
        wrong = int((error > atol).sum())
        if expected.ndim:
            where = f" at {[int(i) for i in at]}"
            count = f"; {wrong} of {error.size} elements differ"
        else:
            where = count = ""
        dtypes = actual.dtype, expected.dtype
        if dtypes[0].kind == dtypes[1].kind == "f" and dtypes[0].itemsize < dtypes[1].itemsize:
            count += f"; its dtype is {dtypes[0]}, expected {dtypes[1]}"
        got, want = _apart(got, want)
        text = f"off by {error.max():.3g}{where}: got {got}, expected {want}{count}"
        _fail(call, text + _pattern(actual, expected, atol), idea)


def expect_equal(actual, expected, *, call: str, idea: str = "") -> None:
    """Exactly the same plain value, types included: 0.5 is not Fraction(1, 2), True is not 1."""
    difference = _difference(actual, expected, "")
    if difference:
        _fail(call, difference, idea)


def expect_error(kind, function, *, call: str, mentions=(), idea: str = "") -> None:
    """`function()` raises `kind`, and its message mentions each of `mentions`."""
    try:
        result = function()
    except NotImplementedError:
        raise
    except kind as error:
        missing = [word for word in map(str, mentions) if word not in str(error)]
        if missing:
            words = ", ".join(map(repr, missing))
            text = f'raised {kind.__name__}("{error}"), which does not name {words}'
            _fail(call, text, idea)
    except Exception as error:
        text = f"raised {type(error).__name__}: {error}; expected a {kind.__name__}"
        _fail(call, text, idea)
    else:
        _fail(call, f"returned {_describe(result)}, expected a {kind.__name__}", idea)


def _fail(call, text, idea):
    hint = f" Look again at: {idea}." if idea else ""
    raise AssertionError(f"{call}: {text}.{hint}")


def _is_number(value):
    kinds = (int, float, Fraction, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, bool)


def _shape(array):
    return f"an array of shape {list(array.shape)}" if array.ndim else "a single number"


def _apart(*numbers):
    """Numbers as text, with as many digits as tell them apart, 6 at least."""
    for digits in range(6, 18):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(texts):
            break
    return texts


def _brief(value):
    text = _SHORT.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _describe(value):
    if value is None:
        return "None"
    if isinstance(value, np.ma.MaskedArray):
        return "a masked array"
    if isinstance(value, np.ndarray):
        return f"an array of shape {list(value.shape)}"
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    described = f"{article} {type(value).__name__}"
    text = _brief(value)  # `<generator object f at 0x7f...>` says nothing more
    return described if text.startswith("<") else f"{described} ({text})"


def _pattern(actual, expected, atol):
    """A sentence when the result is a simple multiple of, or a constant away from, expected."""
    if expected.ndim == 0 or expected.size < 2:
        return ""
    scale = float(np.abs(expected).max())
    if scale == 0:
        return ""
    ratio = float((actual * expected).sum() / (expected * expected).sum())
    for top in range(1, 9):
        for bottom in range(1, 9):
            factor = Fraction(top, bottom)
            if factor != 1 and abs(ratio - factor) < 1e-9 * top:
                if np.abs(actual - float(factor) * expected).max() <= 8 * atol + 1e-9 * scale:
                    return f"; every element is {factor} times the expected one"
    shift = actual - expected
    if shift.std() <= atol and abs(shift.mean()) > atol:
        return f"; every element is {shift.mean():+.6g} away"
    return ""


def _difference(actual, expected, where):
    """A sentence about the first difference, or '' when there is none."""
    at = f" at {where}" if where else ""
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        if type(actual) is not type(expected):
            return f"returned a {type(actual).__name__}{at}, expected a {type(expected).__name__}"
        if len(actual) != len(expected):
            texts = _brief(actual), _brief(expected)
            if any(text.endswith("...") for text in texts):  # too long to be read
                texts = f"{len(actual)} entries", len(expected)
            return f"returned {texts[0]}{at}, expected {texts[1]}"
        for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
            if text := _difference(a, e, f"{where}[{index}]"):
                return text
        return ""
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
    for kind, plain in ((np.integer, int), (np.floating, float), (np.bool_, bool)):
        if isinstance(actual, kind) and type(expected) is plain:
            actual = plain(actual)
    if type(actual) is type(expected) and actual == expected:
        return ""
    return f"returned {_describe(actual)}{at}, expected {_describe(expected)}"
