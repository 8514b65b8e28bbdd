"""Draw a schedule: as text in the terminal, as SVG for a page.

    python grid.py 4 8                          your grid of 4 stages and 8 microbatches
    python grid.py 4 8 --schedule 1f1b          gpipe, 1f1b or interleaved (--chunks 2)
    python grid.py 4 8 --svg bubble.svg

It draws what solution.py computes, or with LAB_IMPL=starter what you wrote: the grid as soon as you
have it, and below it the bubble and the peaks, or which function they still wait for. `text(grid)`
and `svg(grid, title)` draw any list of rows whose cells are microbatch numbers, ops or None.
"""

import argparse
from itertools import groupby
from pathlib import Path

from labkit.loading import describe_exception, load_chosen
from labkit.svg import Drawing

HERE = Path(__file__).resolve().parent
TITLES = {
    "forward": "forward only",
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "interleaved 1F1B, {chunks} chunks per rank",
}
KINDS = {  # of an op: its colour, its name
    "F": ("c0", "forward"),
    "B": ("c1", "backward"),
    "I": ("c3", "backward, input"),
    "W": ("c2", "backward, weights"),
}
CELL_W, CELL_H, LEFT, TOP = 18, 22, 52, 26


def text(grid):
    """One line per rank; a dot is an idle tick; an op is written as torch writes it (2F7)."""
    labels = [[_label(cell, rank) for cell in row] for rank, row in enumerate(grid)]
    width = max(len(label) for row in labels for label in row)
    name = len(str(len(grid) - 1))
    return "\n".join(
        f"rank {rank:{name}}  " + " ".join(f"{label:>{width}}" for label in row)
        for rank, row in enumerate(labels)
    )


def _label(cell, rank):
    if cell is None:
        return "."
    if isinstance(cell, int):
        return str(cell)
    kind, stage, microbatch = cell
    return f"{kind}{microbatch}" if stage == rank else f"{stage}{kind}{microbatch}"


def svg(grid, title):
    """The grid as an .svg file: rows are ranks, columns ticks; a rank's odd chunks are pale."""
    ticks, bottom, key = max(map(len, grid)), TOP + len(grid) * CELL_H, _key(grid)
    ends = [LEFT + ticks * CELL_W, LEFT + 8 * len(title), key[-1][0] + 16 + 6 * len(key[-1][2])]
    d = Drawing(max(ends) + 8, bottom + 40)
    d.text(LEFT, 16, title, "fg", "start", 13, "bold")
    for rank, row in enumerate(grid):
        y, tick = TOP + rank * CELL_H, 0
        d.text(LEFT - 6, y + 15, f"rank {rank}", "muted", "end", 11)
        for cell, run in groupby(row):
            span = len(list(run))
            _op(d, cell, rank, len(grid), LEFT + tick * CELL_W, y, span)
            tick += span
    for tick in range(0, ticks, 1 if ticks <= 24 else 5):
        d.text(LEFT + (tick + 0.5) * CELL_W, bottom + 13, str(tick), "muted", size=10)
    d.text(LEFT - 6, bottom + 13, "tick", "muted", "end", 11)
    for x, look, words in key:
        d.rect(x, bottom + 22, 10, 10, *look)
        d.text(x + 15, bottom + 31, words, "fg", "start", 11)
    idle = sum(row.count(None) for row in grid)
    cells = f"{idle} of {sum(map(len, grid))} cells idle"
    return d.standalone(f"{title}: {len(grid)} ranks, {ticks} ticks, {cells}")


def _op(d, cell, rank, ranks, x, y, span):
    if cell is None:
        for tick in range(span):
            d.rect(x + tick * CELL_W, y, CELL_W, CELL_H, "idle", "edge")
        return
    kind, stage, microbatch = ("F", rank, cell) if isinstance(cell, int) else cell
    pale = stage // ranks % 2 == 1
    d.rect(x, y, span * CELL_W, CELL_H, KINDS[kind][0], "edge soft" if pale else "edge")
    d.text(x + span * CELL_W / 2, y + 15, str(microbatch), "fg" if pale else "bg", size=10)


def _key(grid):
    """[(x, (fill, extra), words)] of what the grid shows."""
    ops = [cell for row in grid for cell in row if isinstance(cell, tuple)]
    kinds = {op[0] for op in ops} or {"F"}
    shown = [((colour, ""), words) for kind, (colour, words) in KINDS.items() if kind in kinds]
    if any(op[1] >= len(grid) for op in ops):
        shown.append((("c0", "soft"), "pale: the rank's second chunk"))
    x, key = LEFT, []
    for look, words in [*shown, (("idle", ""), "idle: the bubble")]:
        key.append((x, look, words))
        x += 32 + 6 * len(words)
    return key


def attempt(lab, function, *arguments):
    """(result, None), or (None, one line that says why there is none yet)."""
    try:
        result = function(*arguments)
    except (ValueError, NotImplementedError) as error:
        return None, str(error)
    except Exception as error:  # a slip in the learner's file: its line, not a traceback
        return None, describe_exception(error, Path(lab.__file__))
    return result, f"{function.__name__} returned None" if result is None else None


def is_grid(grid):
    """Can it be drawn? Rows of None, numbers and ops, not all empty; a draft may be uneven."""
    if not isinstance(grid, list) or not all(isinstance(row, list) for row in grid):
        return False
    cells = [cell for row in grid for cell in row if cell is not None]
    drawable = all(
        isinstance(cell, int) or isinstance(cell, tuple) and len(cell) == 3 for cell in cells
    )
    return any(grid) and drawable


def build(lab, schedule, p, m, chunks=2):
    """(grid, order or None) of a schedule, computed by `lab`'s functions."""
    if schedule == "forward":
        return lab.schedule_grid(p, m), None
    if schedule == "gpipe":
        order = lab.gpipe_order(p, m)
    elif schedule == "1f1b":
        order = lab.one_f_one_b_order(p, m)
    else:
        order = lab.interleaved_order(p, m, chunks)
    return lab.replay(order), order


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("p", type=int, help="stages (ranks)")
    parser.add_argument("m", type=int, help="microbatches")
    parser.add_argument("--schedule", choices=TITLES, default="forward")
    parser.add_argument("--chunks", type=int, default=2, help="stages per rank, if interleaved")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the drawing to FILE")
    chosen = parser.parse_args(arguments)
    lab = load_chosen(HERE)
    made, problem = attempt(lab, build, lab, chosen.schedule, chosen.p, chosen.m, chosen.chunks)
    grid, order = made or (None, None)
    if not problem and not is_grid(grid):
        problem = f"no grid to draw: your functions gave {grid!r:.60}"
    if problem:
        parser.exit(2, f"grid.py: {problem}\n")
    print(text(grid))
    ticks, cells = max(map(len, grid)), sum(map(len, grid))
    idle = sum(row.count(None) for row in grid)
    print(f"{ticks} ticks, {idle} of {cells} cells idle: bubble ", end="")
    bubble, todo = attempt(lab, lab.grid_bubble, grid)
    print(f"not counted ({todo})" if todo else f"{bubble} = {float(bubble):.1%}")
    if order:
        peaks, todo = attempt(lab, lab.peak_live_activations, order)
        print("peak live activations per rank:", *([f"not counted ({todo})"] if todo else peaks))
    if chosen.svg:
        title = f"{TITLES[chosen.schedule].format(chunks=chosen.chunks)}, p = {chosen.p}, "
        title += f"m = {chosen.m}" + (f": bubble {bubble}" if bubble is not None else "")
        chosen.svg.write_text(svg(grid, title), encoding="utf-8")
        print(f"wrote {chosen.svg}")


if __name__ == "__main__":
    main()
