"""The calls a check makes of the learner's functions: remembered, guarded, and put into words."""

import contextlib
import copy
import inspect
import io
import pickle
import pprint
import reprlib
import sys
from collections import deque
from fractions import Fraction
from threading import current_thread, main_thread

from labkit.reads import narrowed

CALLS_KEPT = 4096  # a check makes some hundreds
PLAIN = frozenset((int, float, str, bool, type(None), Fraction))


class Recorder:
    """An implementation whose calls are remembered as (function, args, kwargs, outcome).

    outcome is ("value", result) or ("raises", name of the exception's type). A call may not change
    its arguments: it fails the check at once. reference: gives the solution's function of a name,
    or None; a call is put into words with its parameters and, of each dict, what it looks at.
    """

    def __init__(self, implementation, reference=lambda name: None, kept=CALLS_KEPT):
        self._implementation, self._reference = implementation, reference
        self.calls = deque(maxlen=kept)
        self.running = None  # the call that has not come back, as (function, args, kwargs)
        self.error = None  # what the last call raised

    def __getattr__(self, name):
        value = getattr(self._implementation, name)
        if not callable(value):
            return value

        def call(*args, **kwargs):
            __tracebackhide__ = True
            with self._recorded(name, args, kwargs) as outcome:
                outcome.append(value(*args, **kwargs))
            return outcome[0]

        call.__name__ = name
        return call

    @contextlib.contextmanager
    def _recorded(self, name, args, kwargs):
        """Around a call, whose result is put into the list that this yields."""
        __tracebackhide__ = True
        given, outcome, before = kept((args, kwargs)), [], self.error
        self.running = Call(name, given)  # still so when a time limit ends the check
        try:
            yield outcome
        except BaseException as error:
            # A rank that waits is let go by such an exception, which says nothing where another
            # rank crashed meanwhile; a time limit's is the main thread's, whose call is running.
            crashed = isinstance(self.error, Exception) and self.error is not before
            let_go = current_thread() is not main_thread() and not crashed
            if isinstance(error, Exception) or let_go:
                self.calls.append(Call(name, given, "raises", (type(error).__name__,)))
                self.running, self.error = None, error
            raise
        self.calls.append(Call(name, given, "value", kept(outcome[0])))
        self.running = self.error = None
        if type(given) is not bytes or kept((args, kwargs)) != given:
            self._check_arguments(name, thawed(given), args, kwargs)

    def described(self, call=None) -> str:
        """The last call (or this one) as one would type it; "" when there was none."""
        if call is None and not self.calls:
            return ""
        name, args, kwargs = (call or self.calls[-1])[:3]
        if function := self._reference(name):
            args, kwargs = narrowed(function, args, kwargs)
        names = self._parameters(name, len(args))
        return describe_call(name, **dict(zip(names, args, strict=False)), **kwargs)

    def due(self):
        """What the reference returns for the last call, which raised; None where it raises too."""
        name, args, kwargs = self.calls[-1][:3]
        with contextlib.suppress(Exception):
            return self._reference(name)(*copied(args), **copied(kwargs))
        return None

    def whole_call(self) -> str:
        """The last call with every number of its arguments: a line for each, then the call."""
        name, args, kwargs = self.calls[-1][:3]
        given = dict(zip(self._parameters(name, len(args)), args, strict=True))
        numpy = sys.modules.get("numpy")
        with numpy.printoptions(threshold=sys.maxsize) if numpy else contextlib.nullcontext():
            lines = [
                f"{key} = {pprint.pformat(value, width=96, compact=True, sort_dicts=False)}"
                for key, value in (given | kwargs).items()
            ]
        words = [*given, *(f"{key}={key}" for key in kwargs)]
        return "\n".join([*lines, f"{name}({', '.join(words)})"])

    def _parameters(self, name, count):
        function = self._reference(name)
        names = list(inspect.signature(function).parameters)[:count] if function else []
        return names + [f"argument_{place + 1}" for place in range(len(names), count)]

    def _check_arguments(self, name, given, args, kwargs):
        before, now = [*given[0], *given[1].values()], [*args, *kwargs.values()]
        for place, (one, other) in enumerate(zip(before, now, strict=True)):
            if _changed(one, other):
                argument = [*self._parameters(name, len(args)), *kwargs][place]
                raise AssertionError(
                    f"{self.described((name, *given))} changed its argument {argument}: the "
                    "caller still needs it. Work on a copy, or make a new one."
                )


class Call:
    """A call as it was made; iterates as (function, args, kwargs, outcome)."""

    def __init__(self, name, given, kind="", value=(None,)):
        self.name, self._given, self._kind, self._value = name, given, kind, value

    def __iter__(self):
        return iter((self.name, *thawed(self._given), (self._kind, thawed(self._value))))

    def __getitem__(self, part):
        return tuple(self)[part]


def describe_call(name: str, /, **arguments) -> str:
    """`row_parallel(x[5, 12], W[7, 12], num_ranks=4)`: arrays by shape, the rest by value."""
    words = {key: _in_call(key, value) for key, value in arguments.items()}
    for key in sorted(words, key=lambda key: -len(words[key])):  # the longest is cut first
        if sum(map(len, words.values())) > LONGEST_CALL:
            words[key] = _in_call(key, arguments[key], ARGUMENT)
    return f"{name}({', '.join(words.values())})"


LONGEST_CALL, ARGUMENT = 320, 100  # letters: four lines of the screen; one argument of more


def _in_call(key, value, most=LONGEST_CALL):
    if is_array(value):
        return f"{key}{list(value.shape)}"
    return f"{key}={brief(value, _ARGUMENT, most)}"


def is_array(value) -> bool:
    """Whether it is a numpy array. Where numpy is not imported, or not yet whole, nothing is."""
    kind = getattr(sys.modules.get("numpy"), "ndarray", None)
    return kind is not None and isinstance(value, kind)


def plain_number(value):
    """A numpy scalar, or an array of no dimension, as Python's number; all else as it is."""
    numpy = sys.modules.get("numpy")
    if not hasattr(numpy, "generic") or isinstance(value, float) and type(value) is float:
        return value
    single = type(value) is numpy.ndarray and value.ndim == 0 and value.dtype != object
    return value.item() if single or isinstance(value, numpy.generic) else value


class _Short(reprlib.Repr):
    """repr() of no more of a large value than will be shown."""

    def __init__(self, digits=None):
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = 30
        self.maxstring = self.maxlong = self.maxother = 320
        self.maxlevel = 9
        self.digits = digits

    def repr_float(self, value, level):
        return repr(float(f"{value:.{self.digits}g}") if self.digits else value)

    def repr_ReadDict(self, value, level):  # noqa: N802 (reprlib's way)
        words = [f"{key!r}: {self.repr1(item, level)}" for key, item in value.items()]
        return "{" + ", ".join(words + ["..."] * value.narrowed) + "}"


_RESULT, _ARGUMENT = _Short(), _Short(digits=12)  # 0.00064, not 0.0006399999999999999


def brief(value, short=_RESULT, most=60) -> str:
    """repr() cut to so many characters."""
    text = short.repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


class _Plain(pickle.Pickler):
    """Of builtin values alone: nobody else's code is run."""

    def reducer_override(self, value):
        raise pickle.PicklingError


def kept(value):
    """A value as it is now, for `thawed`: of deep ones pickle makes the fastest copy by far."""
    file = io.BytesIO()
    try:
        _Plain(file, 5).dump(value)
    except Exception:
        return (copied(value),)
    return file.getvalue()


def thawed(kept):
    return pickle.loads(kept) if type(kept) is bytes else kept[0]


def copied(value):
    """copy.deepcopy for plain values, several times faster."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        return kind(value if PLAIN.issuperset(map(type, value)) else map(copied, value))
    if kind is dict:
        items = value.items()
        return {key: item if type(item) in PLAIN else copied(item) for key, item in items}
    if is_array(value) and kind.__name__ == "ndarray" and value.dtype != object:
        return value.copy(order="K")
    try:
        return copy.deepcopy(value)
    except Exception:  # a generator, a group, say; the check judges what was returned
        return kind


def _changed(before, now):
    """Whether plain values, or lists, tuples, dicts and arrays of them, differ from their copy."""
    if before is now:  # so are most: `copied` keeps what cannot change
        return False
    kind = type(before)
    if kind in (*PLAIN, list, tuple, dict) and type(now) is not kind:
        return True
    if kind in (list, tuple):
        if PLAIN.issuperset(map(type, before)) and before == now:
            return False
        return len(before) != len(now) or any(map(_changed, before, now))
    if kind is dict:  # their order too: whoever goes through them sees it
        return list(before) != list(now) or any(map(_changed, before.values(), now.values()))
    if hasattr(before, "dtype") and before.dtype != object:  # bit by bit: NaN equals itself
        return before.shape != now.shape or before.tobytes() != now.tobytes()
    return kind in PLAIN and now != before and before == before
