"""Two schedules in text, yours and the expected one, the first cell that differs marked in both.

yours                      expected
stage 0   0  1  2  .  .    stage 0   0  1  2  .  .
stage 1   . >1  .  .  .    stage 1   . >0  1  2  .
"""

import contextlib
import itertools

from labkit.expect import Unexpected

WIDTH, ROWS = 78 - 15, 8  # letters; what a failure has of the screen


@contextlib.contextmanager
def beside(yours, expected, row="stage", text=str):
    """A failure inside is drawn: yours and expected are lists of rows of cells.

    text: a cell in a few letters.
    """
    __tracebackhide__ = True
    try:
        yield
    except Unexpected as error:
        error.drawing = draw(yours, expected, row, text)
        raise


def draw(yours, expected, row="stage", text=str):
    """The lines of the drawing; of a long grid, what lies around the first difference."""
    at = _first_difference(yours, expected)
    if at is None:
        return ""
    cells = [text(cell) for grid in (yours, expected) for line in grid for cell in line]
    wide, label = max(map(len, cells), default=1) + 1, len(f"{row} {len(expected) - 1}") + 1
    ticks = max(len(line) for grid in (yours, expected) for line in grid)
    aside = 2 * (label + wide * ticks) + 4 <= WIDTH
    shown = ticks if aside else min(ticks, (WIDTH - label) // wide)
    begin = max(0, min(at[1] - shown // 2, ticks - shown))
    first = max(0, at[0] - ROWS // 2)
    columns = []
    for title, grid in (("yours", yours), ("expected", expected)):
        lines = [title if not begin else f"{title}, from {begin} on"]
        for number, line in list(enumerate(grid))[first : first + ROWS]:
            marked = [
                _cell(line, place, text, (number, place) == at).rjust(wide)
                for place in range(begin, begin + shown)
            ]
            lines.append(f"{row} {number}".ljust(label) + "".join(marked).rstrip())
        columns.append(lines)
    if not aside:
        return "\n".join([*columns[0], *columns[1]])
    width = max(map(len, columns[0])) + 4
    pairs = itertools.zip_longest(*columns, fillvalue="")
    return "\n".join(one.ljust(width) + other for one, other in pairs)


def _cell(line, place, text, marked):
    return ">" * marked + (text(line[place]) if place < len(line) else "")


def _first_difference(yours, expected):
    """(row, place) of the first cell that is not as expected, or that one of them lacks."""
    lacking = object()
    for number, rows in enumerate(itertools.zip_longest(yours, expected, fillvalue=())):
        for place, cells in enumerate(itertools.zip_longest(*rows, fillvalue=lacking)):
            if cells[0] != cells[1]:
                return number, place
    return None
