"""Draw a schedule: as text in the terminal, as SVG for a page.

    python grid.py 4 8                          your grid of 4 stages and 8 microbatches
    python grid.py 4 8 --schedule 1f1b          gpipe, 1f1b or interleaved (--chunks 2)
    python grid.py 4 8 --svg bubble.svg

It draws what solution.py computes, or with LAB_IMPL=starter what you wrote: the grid as soon as you
have it, and below it what your other functions say, or which one it still waits for. `text(grid)`
and `svg(grid, title)` draw any list of rows whose cells are microbatch numbers, ops or None.
"""

import argparse
import shutil
import sys
from itertools import groupby
from pathlib import Path

from labkit.loading import answered_by, describe_exception, load_chosen, run_program
from labkit.svg import SERIES, Drawing

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
CELL_W, CELL_H, LEFT, TOP, WIDE = 18, 22, 58, 26, 420


def text(grid, columns=None):
    """One line per rank; a dot is an idle tick; an op is written as torch writes it (2F7).

    columns: letters of a line; what does not fit stands below, from its tick on.
    """
    labels = [[_label(cell, rank) for cell in row] for rank, row in enumerate(grid)]
    width = max(len(label) for row in labels for label in row)
    name, ticks = len(str(len(grid) - 1)), max(map(len, labels))
    fit = max(1, (columns - name - 6) // (width + 1)) if columns else ticks
    parts = [
        [
            f"rank {rank:{name}}  " + " ".join(f"{label:>{width}}" for label in row[begin:][:fit])
            for rank, row in enumerate(labels)
        ]
        for begin in range(0, ticks, fit)
    ]
    return "\n\n".join("\n".join(lines) for lines in parts)


def _label(cell, rank):
    if cell is None:
        return "."
    if isinstance(cell, int):
        return str(cell)
    kind, stage, microbatch = cell
    return f"{kind}{microbatch}" if stage == rank else f"{stage}{kind}{microbatch}"


def svg(grid, title):
    """The grid as an .svg file: rows are ranks, columns ticks; a rank's odd chunks are pale."""
    ticks, bottom = max(map(len, grid)), TOP + len(grid) * CELL_H
    d = Drawing(0, 0)
    d.text(LEFT, 16, title, "fg", "start", 13, "bold")
    rows(d, grid, TOP)
    for tick in range(0, ticks, 1 if ticks <= 24 else 5):
        d.text(LEFT + (tick + 0.5) * CELL_W, bottom + 13, str(tick), "muted", size=12)
    d.text(LEFT - 6, bottom + 13, "tick", "muted", "end")
    d.width = 8 + max(LEFT + ticks * CELL_W, LEFT + 8 * len(title), key(d, bottom + 22, grid))
    idle = sum(row.count(None) for row in grid)
    cells = f"{idle} of {sum(map(len, grid))} cells idle"
    return d.standalone(f"{title}: {len(grid)} ranks, {ticks} ticks, {cells}")


def rows(d, grid, top, cell_w=CELL_W, name="rank"):
    """The cells of a grid; equal ones in a run are one operation."""
    for rank, row in enumerate(grid):
        x, y = LEFT, top + rank * CELL_H
        d.text(LEFT - 6, y + 15, f"{name} {rank}", "muted", "end")
        for cell, run in groupby(row):
            start, count = x, len(list(run))
            x += count * cell_w
            if cell is None:
                for tick in range(count):
                    d.rect(start + tick * cell_w, y, cell_w, CELL_H, "idle", "edge")
                continue
            if isinstance(cell, int):  # forward only: a colour for each microbatch
                fill, stage, microbatch = SERIES[cell % len(SERIES)], rank, cell
            else:
                fill, stage, microbatch = KINDS[cell[0]][0], *cell[1:]
            pale = stage // len(grid) % 2 == 1
            d.rect(start, y, x - start, CELL_H, fill, "edge soft" if pale else "edge")
            if x - start >= 2 + 8 * len(str(microbatch)):  # else there is no room for it
                ink = "fg" if pale else "bg"
                d.text((start + x) / 2, y + 15, str(microbatch), ink)


def key(d, y, *grids):
    """What the colours of the grids mean, in lines for a phone; returns where they end."""
    ops = [(op, len(grid)) for grid in grids for row in grid for op in row if isinstance(op, tuple)]
    kinds = {op[0] for op, _ in ops}
    looks = [(colour, "", words) for kind, (colour, words) in KINDS.items() if kind in kinds]
    if any(op[1] >= ranks for op, ranks in ops):
        looks.append(("c0", "soft", "pale: the rank's second chunk"))
    x, right = LEFT, 0
    for fill, extra, words in [*looks, ("idle", "", "idle: the bubble")]:
        if x > LEFT and x + 15 + 7 * len(words) > WIDE:
            x, y = LEFT, y + 18
        d.rect(x, y, 10, 10, fill, extra)
        d.text(x + 15, y + 10, words, "fg", "start")
        x += 32 + 7 * len(words)
        right, d.height = max(right, x - 16), y + 18
    return right


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


def served(lab, p, m):
    """Lines below a forward grid: the same stages in decoding, and, if several, as boxes of 8."""

    def work():
        rate = lab.decode_steps_per_s(p, m, p, 0)  # a stage takes one tick
        return f"{float(rate):.1%} of the stages' time is work"

    def hops():
        plans = {f"TP8 x PP{p}": (8, p), f"TP{8 * p}": (8 * p, 1)}
        bills = {name: lab.plan_bill(*plan, 8, 80, 8192, 1, m) for name, plan in plans.items()}
        return ", ".join(f"{bill['node_hops']:,} with {name}" for name, bill in bills.items())

    asked = [(f"decoding with {m} in the loop", work)]
    asked += [(f"hops a token between {p} boxes of 8, 80 layers", hops)] * (p > 1)
    for what, of in asked:
        said, todo = attempt(lab, of)
        yield f"{what}: " + (f"not counted ({todo})" if todo else said)


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
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(f"{answered_by(HERE)}\n{text(grid, columns)}")
    ticks, cells = max(map(len, grid)), sum(map(len, grid))
    idle = sum(row.count(None) for row in grid)
    print(f"{ticks} ticks, {idle} of {cells} cells idle: bubble ", end="")
    bubble, todo = attempt(lab, lab.grid_bubble, grid)
    print(f"not counted ({todo})" if todo else f"{bubble} = {float(bubble):.1%}")
    if chosen.schedule == "forward":
        print(*served(lab, chosen.p, chosen.m), sep="\n")
    if order:
        peaks, todo = attempt(lab, lab.peak_live_activations, order)
        print("peak live activations per rank:", *([f"not counted ({todo})"] if todo else peaks))
    if chosen.svg:
        title = f"{TITLES[chosen.schedule].format(chunks=chosen.chunks)}, p = {chosen.p}, "
        title += f"m = {chosen.m}" + (f": bubble {bubble}" if bubble is not None else "")
        chosen.svg.write_text(svg(grid, title), encoding="utf-8")
        print(f"wrote {chosen.svg}")


if __name__ == "__main__":
    run_program(main)
