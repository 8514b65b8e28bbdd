"""Given in lab 04: `require`, which refuses arguments that make no sense."""

import reprlib
from math import inf
from numbers import Integral, Real


def require(**arguments):
    """Raise ValueError, naming argument and value, unless every argument makes sense.

    ACCEPTED says by name what makes sense; an argument that is not in it is a count: whole and at
    least 1.
    """
    for name, value in arguments.items():
        makes_sense, wanted = ACCEPTED.get(name, (_is_count, "a whole number, 1 or more"))
        if not makes_sense(value):
            raise ValueError(f"{name}={reprlib.repr(value)}: give {wanted}")


def _is_count(value):
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 1


def _is_time(value):
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= value < inf


def _is_list(value, of):
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(of, value))


def _is_grid(grid):
    rows = _is_list(grid, of=lambda row: _is_list(row, of=lambda cell: True))
    return rows and len({len(row) for row in grid}) == 1


def _is_order(order):
    return _is_list(order, of=lambda ops: isinstance(ops, (list, tuple))) and _is_list(
        [op for ops in order for op in ops], of=lambda op: op[0] in ("F", "B")
    )


ACCEPTED = {
    "model_s": (lambda s: _is_time(s) and s > 0, "seconds, above 0"),
    "hop_s": (_is_time, "seconds, 0 or more"),
    "stage_s": (
        lambda stages: _is_list(stages, of=lambda s: _is_time(s) and s > 0),
        "a list with the seconds of each stage, above 0",
    ),
    "budget": (lambda share: isinstance(share, Real) and 0 < share < 1, "a share between 0 and 1"),
    "grid": (_is_grid, "a list with one row (a list of cells) per stage, all of one length >= 1"),
    "order": (_is_order, "a list with the ops of each rank, kind 'F' or 'B', one op at least"),
}
