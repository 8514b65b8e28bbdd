"""Given in lab 04: `require`, which refuses arguments that make no sense."""

from numbers import Integral, Real

from arguments import is_number, must_be


def require(**arguments):
    """Raise ValueError, naming argument and value, unless every argument makes sense.

    ACCEPTED says by name what makes sense; an argument that is not in it is a count: whole and at
    least 1.
    """
    for name, value in arguments.items():
        must_be(ACCEPTED.get(name, ("a whole number, 1 or more", _is_count)), name, value)


def _is_count(value):
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 1


def _is_time(value):
    return is_number(value) and value >= 0


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
    "model_s": ("seconds, above 0", lambda s: _is_time(s) and s > 0),
    "hop_s": ("seconds, 0 or more", _is_time),
    "stage_s": (
        "a list with the seconds of each stage, above 0",
        lambda stages: _is_list(stages, of=lambda s: _is_time(s) and s > 0),
    ),
    "budget": ("a share between 0 and 1", lambda share: isinstance(share, Real) and 0 < share < 1),
    "grid": ("a list with one row (a list of cells) per stage, all of one length >= 1", _is_grid),
    "order": ("a list with the ops of each rank, kind 'F' or 'B', one op at least", _is_order),
}
