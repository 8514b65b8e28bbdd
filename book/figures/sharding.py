"""Lab 01's algebra as pictures."""

from labkit.svg import SERIES, Drawing


def _matrix(d, x, y, w, h, shards, by, label):
    """A matrix cut into `shards` by "rows" or "columns"; shards is a list of series indices."""
    n = len(shards)
    for i, series in enumerate(shards):
        fill = SERIES[series] if series is not None else "idle"
        if by == "rows":
            d.rect(x, y + i * h / n, w, h / n, fill, "edge")
        else:
            d.rect(x + i * w / n, y, w / n, h, fill, "edge")
    d.text(x + w / 2, y + h + 17, label, "fg", size=13)


def column_row():
    """Column-parallel above, row-parallel below, two ranks."""
    d = Drawing(680, 380)
    for top, name in (
        (0, "Column-parallel: the outputs are divided"),
        (195, "Row-parallel: the inputs are divided"),
    ):
        d.text(8, top + 20, name, "fg", "start", 15, "bold")
    y = 40
    _matrix(d, 20, y + 25, 110, 50, [None], "rows", "x  [tokens, in]")
    d.text(152, y + 55, "×", size=20)
    _matrix(d, 180, y, 110, 100, [0, 1], "rows", "W  [out, in]")
    d.text(312, y + 55, "=", size=20)
    _matrix(d, 340, y + 25, 100, 50, [0, 1], "columns", "y  [tokens, out]")
    d.line([(455, y + 50), (520, y + 50)], "fg", "arrow")
    d.text(488, y + 40, "all-gather", "muted", size=12)
    _matrix(d, 535, y + 25, 100, 50, [2], "columns", "whole on every rank")
    y = 235
    _matrix(d, 20, y + 25, 110, 50, [0, 1], "columns", "x  [tokens, in]")
    d.text(152, y + 55, "×", size=20)
    _matrix(d, 180, y, 110, 100, [0, 1], "columns", "W  [out, in]")
    d.text(312, y + 55, "=", size=20)
    d.rect(340, y + 12, 88, 44, "c0", "edge")
    d.text(384, y + 40, "+", "bg", size=22)
    d.rect(352, y + 44, 88, 44, "c1", "edge")
    d.text(396, y + 117 - 25 + 17, "two partial sums", "fg", size=13)
    d.line([(455, y + 50), (520, y + 50)], "fg", "arrow")
    d.text(488, y + 40, "all-reduce", "muted", size=12)
    _matrix(d, 535, y + 25, 100, 50, [2], "columns", "whole on every rank")
    alt = (
        "Two ways to divide y = x W-transposed between two ranks. Column-parallel: each rank "
        "holds half of "
        "W's rows and computes half of y's columns; an all-gather joins them. Row-parallel: each "
        "rank "
        "holds half of W's columns and half of x's; each computes a partial sum as large as y, "
        "and an "
        "all-reduce adds the two."
    )
    caption = (
        "Blue is rank 0, orange is rank 1, green is the same on both. W is stored as [out, in], "
        "so a "
        "“column” of the paper's x A is a row here."
    )
    return d.figure(alt, caption, min_width=560)


def mlp():
    """The MLP pairing: the first layer's output stays where the second one needs it."""
    d = Drawing(680, 230)
    for rank, y in ((0, 20), (1, 120)):
        fill = SERIES[rank]
        d.text(10, y + 42, f"rank {rank}", fill, "start", 14, "bold")
        boxes = (
            (90, 70, "x", "idle"),
            (200, 90, "W₁ half", fill),
            (330, 70, "relu", fill),
            (440, 90, "W₂ half", fill),
        )
        for x, w, label, look in boxes:
            d.rect(x, y + 12, w, 50, look, "box", 6)
            d.text(
                x + w / 2, y + 42, label, "fg" if look == "idle" else "bg", size=14, extra="bold"
            )
        for a, b in ((160, 198), (290, 328), (400, 438)):
            d.line([(a, y + 37), (b, y + 37)], "fg", "arrow")
        d.line([(530, y + 37), (583, 100 if rank == 0 else 110)], fill, "arrow")
    d.rect(585, 78, 86, 54, "c2", "box", 6)
    d.text(628, 101, "all-reduce", "bg", size=14, extra="bold")
    d.text(628, 120, "once", "bg", size=12)
    d.text(365, 103, "nothing crosses here", "muted", size=13)
    d.line([(180, 99), (285, 99)], "muted", "thin dash")
    d.line([(445, 99), (545, 99)], "muted", "thin dash")
    d.text(365, 220, "column-parallel, then row-parallel", "muted", size=13)
    alt = (
        "The MLP on two ranks. Each rank multiplies the whole x by its half of W1, applies relu "
        "to its own "
        "half, and multiplies by its half of W2. Nothing crosses between the ranks until one "
        "all-reduce "
        "adds the two partial sums at the end."
    )
    return d.figure(
        alt, "relu works element by element, so it may be applied to a half.", min_width=560
    )


def ring(num_ranks=4):
    """Ring all-reduce, replayed: how many contributions each chunk holds after every step."""
    p = num_ranks
    held = [[{r} for _ in range(p)] for r in range(p)]
    states = [[[len(chunk) for chunk in row] for row in held]]
    moves = []
    for step in range(2 * (p - 1)):
        moved, fresh = [], [[set(chunk) for chunk in row] for row in held]
        for r in range(p):
            chunk = (r - step) % p if step < p - 1 else (r + 1 - (step - p + 1)) % p
            fresh[(r + 1) % p][chunk] |= held[r][chunk]
            moved.append(((r + 1) % p, chunk))
        held = fresh
        moves.append(moved)
        states.append([[len(chunk) for chunk in row] for row in held])
    assert all(count == p for row in states[-1] for count in row)
    cell, gap = 20, 14
    block = p * cell + gap
    d = Drawing(70 + len(states) * block, 84 + p * 26)
    for s, state in enumerate(states):
        x0 = 62 + s * block
        name = "start" if s == 0 else f"step {s}"
        d.text(x0 + p * cell / 2, 40, name, "fg", size=13, extra="bold")
        for r, row in enumerate(state):
            if s == 0:
                d.text(52, 66 + r * 26, f"rank {r}", "muted", "end", 12)
            for c, count in enumerate(row):
                new = s > 0 and (r, c) in moves[s - 1]
                fill = "c0" if count == p else "c1" if new else "idle"
                d.rect(x0 + c * cell, 52 + r * 26, cell, 20, fill, "edge")
                d.text(
                    x0 + c * cell + cell / 2,
                    66 + r * 26,
                    str(count),
                    "fg" if fill == "idle" else "bg",
                    size=11,
                )
    half = p - 1
    for first, last, name in ((1, half, "reduce-scatter"), (half + 1, 2 * half, "all-gather")):
        a, b = 62 + first * block, 62 + last * block + p * cell
        d.line([(a, 20), (b, 20)], "muted", "thin")
        d.text((a + b) / 2, 14, f"{name}: {half} steps", "muted", size=12)
    y = 72 + p * 26
    d.text(
        62,
        y,
        "The number is how many ranks' values a chunk holds. Orange: just received. Blue: "
        "complete.",
        "muted",
        "start",
        12,
    )
    alt = (
        f"Ring all-reduce among {p} ranks. Each buffer is cut into {p} chunks. In {half} steps "
        f"each rank "
        f"passes one chunk to its neighbour, which adds it, until every chunk is complete on one "
        f"rank. In "
        f"{half} more steps the complete chunks travel round. In all {2 * half} steps, each "
        f"moving one "
        f"{p}th of the buffer per rank."
    )
    return d.figure(alt, "", min_width=640)
