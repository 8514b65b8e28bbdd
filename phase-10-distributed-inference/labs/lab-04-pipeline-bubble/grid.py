"""Draw a schedule: as text in the terminal, as SVG for a page.

    python grid.py 4 8                          your grid of 4 stages and 8 microbatches
    python grid.py 4 8 --schedule 1f1b          gpipe, 1f1b or interleaved (--chunks 2)
    python grid.py 4 8 --svg bubble.svg

It draws what solution.py computes, or with LAB_IMPL=starter what you wrote: the grid as soon as you
have it, and below it the bubble and the peaks, or which function they still wait for. `text(grid)`
and `svg(grid, title)` draw any list of rows whose cells are microbatch numbers, ops or None.
"""

import argparse
import sys
from html import escape
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[2]))  # the project's folder, which holds labkit

from labkit.loading import (  # noqa: E402
    LoadError,
    chosen_file,
    describe_exception,
    load_module,
)

SCHEDULES = ("forward", "gpipe", "1f1b", "interleaved")


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


# Inlined in a page, the drawing takes the page's colours (currentColor and the --lab variables).
# Alone (svg:root), it brings its own for light and dark.
STYLE = """
.pg text { font: 9px system-ui, sans-serif; fill: currentColor; text-anchor: middle }
.pg .rank { text-anchor: end }
.pg .title { font-size: 12px; font-weight: 600; text-anchor: start }
.pg .key { text-anchor: start }
.pg rect { stroke: var(--bg, #fff); stroke-width: 1 }
.pg .idle { fill: var(--lab-idle, #e4e4e4) }
.pg .F { fill: var(--lab-c0, #0b62a8) }
.pg .B { fill: var(--lab-c1, #b04600) }
.pg .I { fill: var(--lab-c3, #8a2a8f) }
.pg .W { fill: var(--lab-c2, #1b7a3a) }
.pg text.on { fill: var(--bg, #fff) }
.pg .odd { fill: var(--bg, #fff); stroke-width: 2 }
.pg .F.odd { stroke: var(--lab-c0, #0b62a8) }
.pg .B.odd { stroke: var(--lab-c1, #b04600) }
.pg .I.odd { stroke: var(--lab-c3, #8a2a8f) }
.pg .W.odd { stroke: var(--lab-c2, #1b7a3a) }
svg.pg:root { background: var(--bg, #fff); color: #1f2328 }
@media (prefers-color-scheme: dark) {
  svg.pg:root { --bg: #0d1117; --lab-c0: #6cb6ff; --lab-c1: #ffa657; --lab-c2: #7ee787;
    --lab-c3: #e0a2ff; --lab-idle: #2d333b; color: #e6edf3 }
}
"""
KINDS = {"F": "forward", "B": "backward", "I": "backward, input", "W": "backward, weights"}
CELL_W, CELL_H, LEFT, TOP = 18, 22, 46, 26


def svg(grid, title):
    """The grid as an SVG document that follows the colours of the page it is inlined in.

    Rows are ranks, columns are ticks. A rank's odd chunks (stage // ranks) are drawn hollow.
    """
    ticks = max(map(len, grid))
    width, bottom = LEFT + ticks * CELL_W + 8, TOP + len(grid) * CELL_H
    idle = sum(row.count(None) for row in grid)
    shapes, kinds, hollow = [], set(), False
    for rank, row in enumerate(grid):
        y = TOP + rank * CELL_H
        shapes.append(f'<text class="rank" x="{LEFT - 6}" y="{y + 15}">rank {rank}</text>')
        tick = 0
        for cell, run in groupby(row):
            span = len(list(run))
            x, w = LEFT + tick * CELL_W, span * CELL_W
            tick += span
            if cell is None:
                cells = range(x, x + w, CELL_W)
                shapes += [_rect("idle", at, y, CELL_W, "idle") for at in cells]
                continue
            kind, stage, microbatch = ("F", rank, cell) if isinstance(cell, int) else cell
            odd = stage // len(grid) % 2 == 1
            kinds.add(kind)
            hollow |= odd
            what = f"stage {stage}, {KINDS[kind]}, microbatch {microbatch}"
            shapes.append(_rect(f"{kind} odd" if odd else kind, x, y, w, what, inset=odd))
            on = "" if odd else ' class="on"'
            shapes.append(f'<text{on} x="{x + w / 2:g}" y="{y + 15}">{microbatch}</text>')
    every = 1 if ticks <= 24 else 5
    for tick in range(0, ticks, every):
        x = LEFT + tick * CELL_W + CELL_W / 2
        shapes.append(f'<text x="{x:g}" y="{bottom + 12}">{tick}</text>')
    shapes.append(f'<text class="rank" x="{LEFT - 6}" y="{bottom + 12}">tick</text>')
    key = [(kind, KINDS[kind]) for kind in KINDS if kind in kinds] + [("idle", "idle: the bubble")]
    if hollow:
        key.insert(-1, ("F odd", "hollow: the rank's second chunk"))
    x = LEFT
    for kind, words in key:
        shapes.append(
            f'<rect class="{kind}" x="{x + 1}" y="{bottom + 20}" width="10" height="10"/>'
        )
        shapes.append(f'<text class="key" x="{x + 16}" y="{bottom + 29}">{words}</text>')
        x += 30 + 5 * len(words)
    width = max(width, x, LEFT + 7 * len(title))
    summary = f"{title}: {len(grid)} ranks, {ticks} ticks, {idle} of {len(grid) * ticks} cells idle"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pg" viewBox="0 0 {width} {bottom + 38}" '
        f'width="{width}" height="{bottom + 38}" role="img" aria-label="{escape(summary)}">'
        f"<style>{STYLE}</style>\n"
        f'<text class="title" x="{LEFT}" y="15">{escape(title)}</text>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def _rect(kind, x, y, width, what, inset=False):
    gap = 2 if inset else 0
    return (
        f'<rect class="{kind}" x="{x + gap}" y="{y + gap}" width="{width - 2 * gap}" '
        f'height="{CELL_H - 2 * gap}"><title>{what}</title></rect>'
    )


def load_implementation():
    """solution.py beside this file, or starter.py with LAB_IMPL=starter.

    ValueError for another LAB_IMPL, LoadError for a file that cannot be imported.
    """
    return load_module(chosen_file(HERE))


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
    parser.add_argument("--schedule", choices=SCHEDULES, default="forward")
    parser.add_argument("--chunks", type=int, default=2, help="stages per rank, if interleaved")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="write the drawing to FILE")
    chosen = parser.parse_args(arguments)
    try:
        lab = load_implementation()
    except (ValueError, LoadError) as error:
        parser.exit(2, f"grid.py: {error}\n")
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
        name = {"forward": "forward only", "gpipe": "GPipe", "1f1b": "1F1B"}
        title = name.get(chosen.schedule, f"interleaved 1F1B, {chosen.chunks} chunks per rank")
        title += f", p = {chosen.p}, m = {chosen.m}"
        title += f": bubble {bubble}" if bubble is not None else ""
        chosen.svg.write_text(svg(grid, title), encoding="utf-8")
        print(f"wrote {chosen.svg}")


if __name__ == "__main__":
    main()
