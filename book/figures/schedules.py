"""Lab 04's four orders of the same training step, on one time axis."""

import re
from itertools import groupby

from labbook.labs import capture, solution

from labkit.svg import Drawing

from .pipeline import _row

KINDS = {"F": "c0", "B": "c1", "I": "c3", "W": "c2"}  # forward, backward, and its two halves
KEY = (
    ("c0", "", "forward"),
    ("c1", "", "backward"),
    ("c3", "", "its input half"),
    ("c2", "", "its weight half"),
    ("c0", "soft", "pale: second thin stage"),
    ("idle", "", "idle"),
)
ROW, LEFT = 22, 60


def schedules(p=4, m=8):
    """GPipe, 1F1B, interleaved 1F1B and zero bubble: the same work each time."""
    lab04 = solution("lab-04")
    cases = (  # name, grid, full ticks per cell, what changed
        ("GPipe", lab04.gpipe_order(p, m), 1, "all forwards, then all backwards"),
        ("1F1B", lab04.one_f_one_b_order(p, m), 1, "backwards start early"),
        ("interleaved", lab04.interleaved_order(p, m, 2), 0.5, "two thin stages per rank"),
    )
    cases = [(name, lab04.replay(order), *more) for name, order, *more in cases]
    cases.append(("zero bubble (ZBV)", _zbv(p, m), 0.5, "weight gradients fill the gaps"))
    tick = 600 / max(len(rows[0]) * unit for _, rows, unit, _ in cases)
    block = p * ROW + 62
    d = Drawing(676, len(cases) * block + 18)
    said = []
    for k, (name, rows, unit, change) in enumerate(cases):
        bubble = lab04.grid_bubble(rows)
        d.text(LEFT, k * block + 18, name, "fg", "start", 14, "bold")
        d.text(LEFT, k * block + 35, f"{change}; bubble {bubble}", "muted", "start", 12)
        for rank, row in enumerate(rows):
            y = k * block + 44 + rank * ROW
            _row(d, y, ROW, f"rank {rank}", _spans(row, unit, p), LEFT, tick)
        said.append(f"{name}: {change}, {len(rows[0]) * unit:g} ticks, bubble {bubble}")
    x, y = LEFT, len(cases) * block + 10
    for fill, extra, words in KEY:
        d.rect(x, y - 10, 11, 11, fill, extra)
        d.text(x + 16, y, words, "fg", "start", 12)
        x += 30 + 6.2 * len(words)
    alt = f"{p} ranks, {m} microbatches, the same work in four orders. " + "; ".join(said) + "."
    caption = (
        "The same work four times, on one time axis. The first three are replayed from lab 04's "
        "orders; the last is the order that Torch's ZBVZeroBubble gives, from the lab's captures."
    )
    return d.figure(alt, caption, min_width=676)


def _zbv(p, m):
    """The grid of Torch's ZBVZeroBubble as the lab captured it, in replay()'s form."""
    orders = capture("lab-04/captures/torch-schedules/orders.json")
    wanted = ("ZBVZeroBubble", p, m)
    zbv = next(one for one in orders if (one["schedule"], one["p"], one["m"]) == wanted)
    op = re.compile(r"(\d+)([FIW])(\d+)")
    grid = [[op.match(text) for text in ops.split()] for ops in zbv["ranks"]]
    width = max(map(len, grid))
    return [
        [(f[2], int(f[1]), int(f[3])) if f else None for f in row] + [None] * (width - len(row))
        for row in grid
    ]


def _spans(row, unit, p):
    """_row's spans of one rank: equal cells in a run are one operation."""
    spans, t = [], 0
    for cell, run in groupby(row):
        ticks = len(list(run)) * unit
        kind, stage, i = cell or (None, 0, "")
        spans.append((t, ticks, str(i), KINDS.get(kind, "idle"), "soft" if stage >= p else ""))
        t += ticks
    return spans
