"""More calls of the learner's function, to tell a suspected mistake from its neighbours.

A check stops at its first wrong result, so a hint made from its calls alone would name whatever
mistake agrees so far. The other inputs are found by running the checks of that function on the
solution: what they call it with is what they would have called the learner's with.
"""

import inspect
import random

from labkit.mistakes import outcome_of
from labkit.recorder import Recorder

CALLS_PER_CHECK = 20


def further_calls(function, items, solution, implementation):
    """Yield (args, kwargs, outcome) of the learner's function on the inputs of its checks.

    items: the pytest items of the lab, the failed check first; those named after the function are
    taken. A check's first inputs are its simplest and much alike, so some are drawn from all.
    """
    for args, kwargs in _inputs(function, items, solution):
        yield args, kwargs, outcome_of(getattr(implementation, function), args, kwargs)


def _inputs(function, items, solution):
    recorder = Recorder(solution, kept=None)
    for item in items:
        if not getattr(item, "originalname", "").startswith(f"test_{function}__"):
            continue
        given = dict(getattr(getattr(item, "callspec", None), "params", {}))
        given["lab"] = recorder
        if set(inspect.signature(item.function).parameters) != set(given):
            continue  # it needs another fixture, such as a folder
        recorder.calls.clear()
        try:
            item.function(**given)
        except Exception:  # a check that cannot run here, such as one that needs a GPU
            continue
        inputs = [
            (args, kwargs)
            for name, args, kwargs, _ in recorder.calls
            if name == function
            and not any(isinstance(value, type) for value in (*args, *kwargs.values()))
        ]
        yield from random.Random(0).sample(inputs, min(len(inputs), CALLS_PER_CHECK))
