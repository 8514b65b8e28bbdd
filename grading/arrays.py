"""Operations on arrays that stay with the judge, asked for by a sandbox that holds numbers only.

Operations come from allow-lists and are bounded before they are carried out: what a submission
asks for may neither reach another function nor exhaust the judge.
"""

import functools
import math
import time
from itertools import zip_longest

import numpy as np

from grading.inside import wire
from grading.inside.wire import ARRAY_METHODS, DTYPES, FIRST_PROMISE, LIKE, MAX_NOTES
from labkit.values import leaves

MAX_ELEMENTS = 2_000_000
MAX_WORK = 50_000_000  # multiplications in one product
MAX_PIECES = 1024  # of a split
MAX_AXES = 32
_COSTS = {"e": 16, "F": 4, "D": 4, "g": 16, "G": 64}  # dtypes that multiply slower than float64
MAX_HELD_BYTES = 256 << 20
MAX_HELD = 50_000
MAX_ANSWERS = 64  # bits that one call may learn of what it was lent

# Every ufunc of numpy: they read their arguments and nothing else. Those with a signature, such as
# matmul, are products.
_UFUNCS = {name: value for name, value in vars(np).items() if isinstance(value, np.ufunc)}
_PRODUCTS = {name: getattr(np, name) for name in wire.PRODUCTS}
_FUNCTIONS = {
    name: getattr(np, name) for name in (*wire.GIVES_ONE_ARRAY, *wire.GIVES_SOMETHING_ELSE)
}
_FUNCTIONS["broadcast_to"] = functools.partial(np.broadcast_to, subok=True)  # still traced
# They change their first argument, unless it was lent, and give nothing.
_WRITERS = {name: getattr(np, name) for name in wire.WRITES_TO_ITS_FIRST}
_JOINS = set("concatenate stack hstack vstack column_stack".split())
_SPLITS = set("split array_split hsplit vsplit dsplit".split())
# an order of elements is a letter; the others say how `put` and `copyto` treat what does not fit
_WORDS = {*DTYPES, *"CFAK", "raise", "wrap", "clip", "same_kind", "safe", "unsafe"}
_ATTRIBUTES = set("T mT".split())
_KEYWORDS = set(
    "axis axes keepdims dtype out where initial order copy dims decimals mode casting ddof".split()
)


class Refused(ValueError):
    """An operation that is not on the list, or larger than any honest one."""


class Promise:
    """The result of note number `note` of the message it comes in."""

    __slots__ = ("note",)

    def __init__(self, note):
        self.note = note


class Held:
    """The arrays of one call that a sandbox knows by number, and the traces that count for it.

    With `looks_up`, what is looked up in a lent table is a result like any other: the call was
    given indices, and the trace counts look-ups. Without, nobody needs to copy a look-up, which
    could be the whole array.
    """

    def __init__(self, traces=(), looks_up=False):
        self.traces = [trace for trace in traces if trace is not None]
        self.looks_up = looks_up
        self.answers_left = MAX_ANSWERS
        self.arrays, self.bytes = [], 0
        self.accounted = {}  # id -> array: all that is kept here, each counted once
        self.results = {}  # id -> array: what products and look-ups gave, and what was made of it

    def counted(self):
        """How many operations the traces have seen; of look-ups, those of a call that looks up."""
        return sum(
            len(trace.multiplications) + self.looks_up * len(trace.table_rows)
            for trace in self.traces
        )

    def note_result(self, result, counted_before, arguments):
        """Remember `result` if the operation was counted, or worked on something that was."""
        inherits = any(id(value) in self.results for value in leaves(arguments))
        if inherits or self.counted() > counted_before:
            for value in leaves(result):
                if isinstance(value, np.ndarray):
                    self.account(value)
                    self.results[id(value)] = value

    def values(self, array):
        """(dtype, shape, bytes) of a result; what was lent stays here, or nothing is counted.

        Of the rest a call learns MAX_ANSWERS bits: `np.isfinite(x).all()` is an honest question.
        """
        if id(array) not in self.results:
            if array.dtype != bool or array.size != 1 or not self.answers_left:
                raise TypeError(
                    "this check counts what is done with the grader's own arrays: use them with "
                    "numpy operations; only results can be copied into other arrays"
                )
            self.answers_left -= 1
        return array.dtype.name, array.shape, array.tobytes()

    def account(self, array):
        """Count an array before it is kept; Refused if that is too much."""
        if id(array) in self.accounted:
            return
        if len(self.accounted) >= MAX_HELD or self.bytes + array.nbytes > MAX_HELD_BYTES:
            raise Refused("too many arrays")
        self.accounted[id(array)] = array
        self.bytes += array.nbytes

    def number_of(self, array):
        if len(self.arrays) >= MAX_HELD:
            raise Refused("too many arrays")
        self.account(array)
        self.arrays.append(array)
        return len(self.arrays) - 1

    def array_of(self, number, *description):
        if FIRST_PROMISE <= number < FIRST_PROMISE + MAX_NOTES and not description:
            return Promise(number - FIRST_PROMISE)
        if description or number >= len(self.arrays):
            raise Refused("no such array")
        return self.arrays[number]


class NoteFailed(Exception):
    """A note raised, the cause says what; `results` are those of the notes before it."""

    def __init__(self, results):
        self.results, self.note = results, len(results)


def perform_notes(notes, held, deadline=None):
    """The results of the notes, in order; a note may use the results of earlier ones.

    A note is ("[]", array, index), ("T", array), (ufunc name, inputs...), or an operation of
    `perform` and its arguments.
    """
    if len(notes) > MAX_NOTES:
        raise Refused("too many notes")
    results = []
    for note in notes:
        try:
            if type(note) is not tuple or not note or type(note[0]) is not str:
                raise Refused("a note that is none")
            operation, *args = [fulfil(value, results) for value in note]
            if deadline is not None and time.monotonic() > deadline:
                raise Refused("out of time")
            counted = held.counted()
            result = _as_arrays(_perform_note(operation, args))
            if not isinstance(result, np.ndarray):
                raise Refused("an operation that gives no array")
            held.account(result)
            held.note_result(result, counted, args)
            results.append(result)
        except Exception as error:
            raise NoteFailed(results) from error
    return results


def _perform_note(operation, args):
    if operation in _UFUNCS:
        ufunc = _UFUNCS[operation]
        _check_values(args)
        if ufunc.signature:
            _bound_product(args)
        else:
            _bound_broadcast(args)
        if len(args) != ufunc.nin or ufunc.nout != 1:
            raise Refused(f"the function {operation} with {len(args)} arguments")
        return _bounded(ufunc(*args))
    array = args[0] if args else None
    if isinstance(array, np.ndarray):
        if operation == "[]" and len(args) == 2:
            return _perform("getitem", tuple(args), {})
        if operation in _ATTRIBUTES and len(args) == 1:
            return getattr(array, operation)
    return _perform(operation, tuple(args), {})


def fulfil(value, results):
    """`value` with the promises in it replaced by what they stood for."""
    kind = type(value)
    if kind is Promise:
        if value.note >= len(results):
            raise Refused("a promise of a later note")
        return results[value.note]
    if kind is tuple:
        return tuple([fulfil(item, results) for item in value])
    if kind is list:
        return [fulfil(item, results) for item in value]
    if kind is dict:
        return {key: fulfil(item, results) for key, item in value.items()}
    return value


def perform(operation, arguments, keywords):
    """The result of one operation, every number in it an array: no value leaves this side.

    Raises what numpy raises, and Refused.
    """
    return _as_arrays(_perform(operation, arguments, keywords))


def _as_arrays(result):
    if isinstance(result, np.generic):
        result = np.asarray(result)
    if isinstance(result, np.ndarray) and result.dtype.kind not in "biufc":
        raise Refused(f"an array of dtype {result.dtype}")  # of objects, whose size has no bound
    if isinstance(result, (list, tuple)):
        return [_as_arrays(value) for value in result]
    return result


def _perform(operation, arguments, keywords):
    if type(keywords) is not dict or not all(name in _KEYWORDS for name in keywords):
        raise Refused("a keyword this check does not offer")
    match operation, arguments:
        case "settle", ():
            return None
        case "getitem", (np.ndarray() as array, index):
            _bound_index(array, index)
            return array[index]
        case "setitem", (np.ndarray() as array, index, value):
            _bound_index(array, index)
            _check_values([value])
            array[index] = value
            return None
        case "order", (np.ndarray() as array, "C" | "F" as order):
            return np.array(array, copy=None, order=order, subok=True)
        case "method", (np.ndarray() as array, str(name), tuple(args), dict(extra)):
            if name not in ARRAY_METHODS or not all(key in _KEYWORDS for key in extra):
                raise Refused(f"the method {name}")
            _check_values([*args, *extra.values()])
            if name == "repeat":
                _bound_repeat(array, args)
            if name == "dot":
                _bound_product([array, *args])
            if name == "take":
                _bound_index(array, args)
            if name == "clip":
                _bound_broadcast([array, *args, *extra.values()])
            return _bounded(getattr(array, name)(*args, **extra))
        case "ufunc", (str(name), "__call__" | "reduce" as method, tuple(args), dict(extra)):
            if name not in _UFUNCS or not all(key in _KEYWORDS for key in extra):
                raise Refused(f"the function {name}")
            _check_values([*args, *extra.values()])
            if _UFUNCS[name].signature:
                _bound_product(args)
            elif method == "__call__":
                _bound_broadcast([*args, *extra.values()])
            result = getattr(_UFUNCS[name], method)(*args, **extra)
            return _bounded(result) if extra.get("out") is None else None
        case "ufunc", (str(name), "at", np.ndarray() as array, index, *values, dict(extra)):
            if name not in _UFUNCS or extra:
                raise Refused(f"the function {name}")
            _bound_index(array, index)
            _check_values(values)
            return _UFUNCS[name].at(array, index, *values)
        case "function", (str(name), tuple(args), dict(extra)):
            if name in LIKE and "shape" in extra:
                _bound_shape(extra["shape"])
            if not all(key in _KEYWORDS or key == "shape" for key in extra):
                raise Refused(f"a keyword of {name}")
            if len(args) > LIKE.get(name, len(args)):
                raise Refused(f"{name} with {len(args)} arguments")
            subscripts = args[:1] if name == "einsum" and type(args[0]) is str else ()
            _check_values([*args[len(subscripts) :], *extra.values()])
            if name in _PRODUCTS:
                _bound_product(args)
                return _bounded(_PRODUCTS[name](*args, **extra))
            if name in _WRITERS:
                if name == "put_along_axis":
                    _bound_index(args[0], args[1:])
                return _WRITERS[name](*args, **extra)
            if name not in _FUNCTIONS:
                raise Refused(f"the function {name}")
            if name == "repeat":
                _bound_repeat(args[0], args[1:])
            elif name in ("where", "clip", "full_like"):
                _bound_broadcast(args)
            elif name in ("take", "take_along_axis"):
                _bound_index(args[0], args[1:])
            elif name in _JOINS:
                _bound_join(args)
            elif name in _SPLITS:
                _bound_split(args[1:])
            elif name in ("triu", "tril"):
                _bound_triangle(args[0])
            return _bounded(_FUNCTIONS[name](*args, **extra))
    raise Refused("an operation this check does not offer")


def _check_values(values):
    """Numbers, and the names of numeric dtypes: numpy makes objects or text of all else."""
    for value in values:
        if type(value) in (list, tuple):
            items = list(leaves(value))
            for item in items:
                if item is not Ellipsis or len(items) > MAX_AXES:  # for einsum
                    _check_number(item)
        elif type(value) is str:
            if value not in _WORDS:
                raise Refused("a text that names no dtype of numbers")
        elif value is not None:
            _check_number(value)


def _check_number(value):
    kind = type(value)
    small = kind is int and -(1 << 63) <= value < 1 << 63
    if not small and kind not in (bool, float) and not isinstance(value, (np.ndarray, np.generic)):
        raise Refused(f"a {kind.__name__} of this size or in this place")


def _bound_shape(shape):
    sizes = shape if type(shape) in (list, tuple) else [shape]
    if any(type(size) is not int or size < 0 for size in sizes):
        raise Refused("a shape that is not made of whole numbers")
    if math.prod(sizes) > MAX_ELEMENTS:
        raise Refused("an array too large for this check")


def _bound_join(args):
    if sum(np.size(value) for value in leaves(args)) > MAX_ELEMENTS:
        raise Refused("an array too large for this check")


def _bound_split(args):
    for value in args[:1]:
        several = isinstance(value, (list, tuple, np.ndarray))
        if (np.size(value) if several else value) > MAX_PIECES:
            raise Refused("more pieces than an honest split has")


def _bound_triangle(array):
    sides = np.shape(array)[-2:] if np.ndim(array) > 1 else np.shape(array) * 2
    if math.prod(sides) > MAX_ELEMENTS:
        raise Refused("an array too large for this check")


def _bound_product(args):
    sizes = [value.size for value in leaves(args) if isinstance(value, np.ndarray)]
    lists = [np.size(value) for value in args if type(value) in (list, tuple)]
    sizes += [size for size in lists if size > MAX_AXES]
    kinds = [value.dtype.char for value in leaves(args) if isinstance(value, np.ndarray)]
    slowest = max((_COSTS.get(kind, 1) for kind in kinds), default=1)
    if math.prod(size or 1 for size in sizes) * slowest > MAX_WORK or len(sizes) > 8:
        raise Refused("a product too large for this check")


def _bound_broadcast(args):
    shapes = [np.shape(value) for value in args if isinstance(value, (np.ndarray, list, tuple))]
    if math.prod(np.broadcast_shapes(*shapes)) > MAX_ELEMENTS:
        raise Refused("an array too large for this check")


def _bound_index(array, index):
    if type(index) is slice or type(index) is int:
        return
    found = list(leaves(index))
    count = sum(leaf.size for leaf in found if isinstance(leaf, np.ndarray)) + len(found)
    if count > 1 and count * max(array.size, 1) > MAX_WORK or _places(array, index) > MAX_WORK:
        raise Refused("an index too large for this check")


def _places(array, index):
    """At most how many elements several arrays in an index stand for: they broadcast."""
    parts = index if type(index) is tuple else ()
    several = [np.asarray(part) for part in parts if isinstance(part, (np.ndarray, list, tuple))]
    shapes = [(np.count_nonzero(part),) if part.dtype == bool else part.shape for part in several]
    sides = map(max, zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1))
    # each stands for an axis, so of the array's own axes at most the longest others remain
    return math.prod(sides) * math.prod(sorted(array.shape)[len(several) :])


def _bound_repeat(array, args):
    repeats = max((np.max(value, initial=0) for value in args[:1]), default=0)
    if np.size(array) * int(repeats) > MAX_ELEMENTS:
        raise Refused("an array too large for this check")


def _bounded(result):
    for value in leaves(result):
        if isinstance(value, np.ndarray) and value.size > MAX_ELEMENTS:
            raise Refused("an array too large for this check")
    return result
