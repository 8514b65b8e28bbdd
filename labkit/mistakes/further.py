"""More calls of the learner's function, to tell a suspected mistake from its neighbours.

A check stops at its first wrong result, so a hint made from its calls alone would name whatever
mistake agrees so far. The other inputs are found by running the checks of that function on the
solution: what they call it with is what they would have called the learner's with.
"""

import contextlib
import functools
import inspect
import io
import pdb
import random
import sys

import pytest

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
    for item in items:
        if getattr(item, "originalname", "").startswith(f"test_{function}__"):
            for _, args, kwargs, _ in _calls(function, item, solution):
                with unheard():
                    outcome = outcome_of(getattr(implementation, function), args, kwargs)
                yield args, kwargs, outcome


@functools.lru_cache  # several hints of a run ask; outcome_of calls with copies
def _calls(function, item, solution):
    """Some of the calls that a check makes; none where it cannot run, such as without a GPU."""
    recorder = Recorder(solution, kept=None)
    if run_apart(item, recorder) is not None:
        return []
    calls = [call for call in recorder.calls if call.name == function and _is_plain(call)]
    return random.Random(0).sample(calls, min(len(calls), CALLS_PER_CHECK))


def _is_plain(call):
    _, args, kwargs, _ = call
    return not any(isinstance(value, type) for value in (*args, *kwargs.values()))


@contextlib.contextmanager
def unheard():
    """The learner's code runs once more: nothing that it prints is shown, no debugger stops it."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((sys, "breakpointhook"), (pdb, "set_trace")):
            patch.setattr(module, name, lambda *args, **kwargs: None)
        for name in ("stdout", "stderr"):
            patch.setattr(sys, name, io.StringIO())
        yield


def run_apart(item, implementation):
    """A check's own function, called outside of pytest's run: its exception, or None.

    One that needs another fixture than the lab, such as a folder, is not called: Apart.
    """
    given = dict(getattr(getattr(item, "callspec", None), "params", {})) | {"lab": implementation}
    if set(inspect.signature(item.function).parameters) != set(given):
        return Apart(item.name)
    try:
        with unheard():
            item.function(**given)
    except Exception as error:
        return error
    return None
