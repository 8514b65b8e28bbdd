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
        y = top + 40
        d.text(152, y + 55, "×", size=20)
        d.text(312, y + 55, "=", size=20)
        d.line([(455, y + 50), (520, y + 50)], "fg", "arrow")
        _matrix(d, 535, y + 25, 100, 50, [2], "columns", "whole on every rank")
    y = 40
    _matrix(d, 20, y + 25, 110, 50, [None], "rows", "x  [tokens, in]")
    _matrix(d, 180, y - 5, 100, 110, [0, 1], "columns", "Wᵀ  [in, out]")
    _matrix(d, 340, y + 25, 100, 50, [0, 1], "columns", "y  [tokens, out]")
    d.text(488, y + 40, "all-gather", "muted", size=12)
    y = 235
    _matrix(d, 20, y + 25, 110, 50, [0, 1], "columns", "x  [tokens, in]")
    _matrix(d, 180, y - 5, 100, 110, [0, 1], "rows", "Wᵀ  [in, out]")
    d.rect(340, y - 9, 100, 50, "c0", "edge")
    d.text(390, y + 57, "+", size=18)
    d.rect(340, y + 63, 100, 50, "c1", "edge")
    d.text(390, y + 130, "two partial sums", "fg", size=13)
    d.text(488, y + 40, "all-reduce", "muted", size=12)
    alt = (
        "Two ways to divide y = x W-transposed between two ranks. Column-parallel: each rank holds "
        "half of the columns of W-transposed and computes half of y's columns; an all-gather joins "
        "them. Row-parallel: each rank holds half of the rows of W-transposed and half of x's "
        "columns; each computes a partial sum as large as y, and an all-reduce adds the two."
    )
    caption = (
        "Blue is rank 0, orange is rank 1, green is the same on both, grey is x, which both have. "
        "The names speak of Wᵀ, the paper's A. W itself is stored as [out, in]: a column here is a "
        "row there."
    )
    return d.figure(alt, caption, min_width=680)


def mlp():
    """The MLP pairing: the first layer's output stays where the second one needs it."""
    d = Drawing(680, 250)
    for rank, y in ((0, 20), (1, 130)):
        fill = SERIES[rank]
        d.text(8, y + 42, f"rank {rank}", fill, "start", 14, "bold")
        boxes = (
            (70, 50, "x", "idle", "[tokens, in]"),
            (160, 84, "W₁ half", fill, "[in, hidden/2]"),
            (284, 60, "relu", fill, "[tokens, hidden/2]"),
            (384, 84, "W₂ half", fill, "[hidden/2, out]"),
            (620, 50, "y", "c2", "[tokens, out]"),
        )
        for x, w, label, look, shape in boxes:
            text = "fg" if look == "idle" else "bg"
            d.rect(x, y + 12, w, 50, look, "box", 6)
            d.text(x + w / 2, y + 42, label, text, size=14, extra="bold")
            d.text(min(x + w / 2, 638), y + 78, shape, "muted", size=11)
        for a, b in ((120, 158), (244, 282), (344, 382)):
            d.line([(a, y + 37), (b, y + 37)], "fg", "arrow")
        at = 107 if rank == 0 else 123
        d.line([(468, y + 37), (500, at)], fill, "arrow")
        d.line([(588, at), (618, y + 37)], "c2", "arrow")
    d.rect(502, 88, 86, 54, "fg", "box", 6)
    d.text(545, 111, "all-reduce", "bg", size=14, extra="bold")
    d.text(545, 130, "once", "bg", size=12)
    d.text(314, 120, "nothing crosses here", "muted", size=13)
    d.text(314, 240, "column-parallel, then row-parallel", "muted", size=13)
    alt = (
        "The MLP on two ranks. Each rank multiplies the whole x by its half of W1, applies relu to "
        "its own half, and multiplies by its half of W2. Nothing crosses between the ranks until "
        "one all-reduce adds the two partial sums at the end; then both ranks have the whole y."
    )
    caption = (
        "relu works element by element, so it may be applied to a half. It stands for the "
        "activation of a real model, such as SiLU(gate) × up, which is elementwise too."
    )
    return d.figure(alt, caption, min_width=680)


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
    d = Drawing(70 + len(states) * block, 60 + p * 26)
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
    alt = (
        f"Ring all-reduce among {p} ranks. Each buffer is cut into {p} chunks. In {half} steps "
        f"each rank "
        f"passes one chunk to its neighbour, which adds it, until every chunk is complete on one "
        f"rank. In "
        f"{half} more steps the complete chunks travel round. In all {2 * half} steps, each "
        f"moving one "
        f"{p}th of the buffer per rank."
    )
    caption = (
        "A row is a rank's buffer, a column a chunk; the number says how many ranks' values it "
        f"holds. In each step every rank passes one chunk to the next, and rank {p - 1} to rank 0. "
        "Orange was just received and added to, blue is complete."
    )
    return d.figure(alt, caption, min_width=760)
