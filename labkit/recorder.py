"""The calls a check makes of the learner's functions: remembered, guarded, and put into words."""

import contextlib
import copy
import reprlib
from collections import deque
from fractions import Fraction

import numpy as np

CALLS_KEPT = 4096  # a check makes some hundreds
PLAIN = frozenset((int, float, str, bool, type(None), Fraction))


class Recorder:
    """An implementation whose calls are remembered as (function, args, kwargs, outcome).

    outcome is ("value", result) or ("raises", name of the exception's type). A call may not change
    its arguments: it fails the check at once. names gives a function's parameter names.
    """

    def __init__(self, implementation, names=lambda function: [], kept=CALLS_KEPT):
        self._implementation, self._names = implementation, names
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

        def steps(*args, **kwargs):
            __tracebackhide__ = True
            with self._recorded(name, args, kwargs) as outcome:
                outcome.append((yield from value.steps(*args, **kwargs)))
            return outcome[0]

        if hasattr(value, "steps"):  # collectives.run_ranks
            call.steps = steps
        call.__name__ = name
        return call

    @contextlib.contextmanager
    def _recorded(self, name, args, kwargs):
        """Around a call, whose result is put into the list that this yields."""
        __tracebackhide__ = True
        given, outcome = (copied(args), copied(kwargs)), []
        self.running = (name, *given)  # still so when a time limit ends the check
        try:
            yield outcome
        except Exception as error:
            self.calls.append((name, *given, ("raises", type(error).__name__)))
            self.running, self.error = None, error
            raise
        self.calls.append((name, *given, ("value", copied(outcome[0]))))
        self.running = self.error = None
        self._check_arguments(name, given, args, kwargs)

    def described(self, call=None) -> str:
        """The last call (or this one) as one would type it; "" when there was none."""
        if call is None and not self.calls:
            return ""
        name, args, kwargs = (call or self.calls[-1])[:3]
        names = self._parameters(name, len(args))
        return describe_call(name, **dict(zip(names, args, strict=False)), **kwargs)

    def _parameters(self, name, count):
        names = list(self._names(name))[:count]
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


def describe_call(name: str, /, **arguments) -> str:
    """`row_parallel(x[5, 12], W[7, 12], num_ranks=4)`: arrays by shape, the rest by value."""
    words = []
    for key, value in arguments.items():
        if isinstance(value, np.ndarray):
            words.append(f"{key}{list(value.shape)}")
        else:
            words.append(f"{key}={_argument(value)}")
    return f"{name}({', '.join(words)})"


def _argument(value):
    """A value as it stands in a call: of a dict that is too long for a line, its whole numbers.

    They tell one model or plan from another; cut to 60 characters, two would look alike.
    """
    if isinstance(value, dict) and len(_ARGUMENT.repr(value)) > 60:
        numbers = [f"{key!r}: {item!r}" for key, item in value.items() if type(item) is int][:8]
        if numbers:
            return "{" + ", ".join(numbers + ["..."] * (len(value) > len(numbers))) + "}"
    return brief(value, _ARGUMENT)


class _Short(reprlib.Repr):
    """repr() of no more of a large value than will be shown."""

    def __init__(self, digits=None):
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = 30
        self.maxstring = self.maxlong = self.maxother = 130
        self.digits = digits

    def repr_float(self, value, level):
        return repr(float(f"{value:.{self.digits}g}") if self.digits else value)


_RESULT, _ARGUMENT = _Short(), _Short(digits=12)  # 0.00064, not 0.0006399999999999999


def brief(value, short=_RESULT) -> str:
    """repr() cut to 60 characters."""
    text = short.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def copied(value):
    """copy.deepcopy for plain values, several times faster: thousands of calls are recorded."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind in (list, tuple):
        return kind(value if PLAIN.issuperset(map(type, value)) else map(copied, value))
    if kind is dict:
        return {key: copied(item) for key, item in value.items()}
    if kind is np.ndarray and value.dtype != object:
        return value.copy(order="K")
    try:
        return copy.deepcopy(value)
    except Exception:  # a generator, a group, say; the check judges what was returned
        return kind


def _changed(before, now):
    """Whether plain values, or lists, tuples, dicts and arrays of them, differ from their copy."""
    kind = type(before)
    if kind in (*PLAIN, list, tuple, dict) and type(now) is not kind:
        return True
    if kind in (list, tuple, dict):
        with contextlib.suppress(ValueError):  # of an array's truth
            if before == now:
                return False
    if kind in (list, tuple):
        return len(before) != len(now) or any(map(_changed, before, now))
    if kind is dict:
        return before.keys() != now.keys() or any(_changed(before[key], now[key]) for key in before)
    if hasattr(before, "dtype") and before.dtype != object:  # bit by bit: NaN equals itself
        return before.shape != now.shape or before.tobytes() != now.tobytes()
    return kind in PLAIN and now != before and before == before
