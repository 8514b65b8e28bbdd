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


class Apart(Exception):
    """A check that pytest alone can run, since it wants another fixture than the lab."""


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
        recorder.calls.clear()
        if run_apart(item, recorder) is not None:
            continue  # it cannot run here, such as one that needs a GPU
        inputs = [
            (args, kwargs)
            for _, args, kwargs, _ in (call for call in recorder.calls if call.name == function)
            if not any(isinstance(value, type) for value in (*args, *kwargs.values()))
        ]
        yield from random.Random(0).sample(inputs, min(len(inputs), CALLS_PER_CHECK))


def run_apart(item, implementation):
    """A check's own function, called outside of pytest's run: its exception, or None.

    One that needs another fixture than the lab, such as a folder, is not called: Apart.
    """
    given = dict(getattr(getattr(item, "callspec", None), "params", {})) | {"lab": implementation}
    if set(inspect.signature(item.function).parameters) != set(given):
        return Apart(item.name)
    try:
        item.function(**given)
    except Exception as error:
        return error
    return None
