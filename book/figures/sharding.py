"""Lab 01's algebra as pictures."""

from labkit.svg import SERIES, Drawing

from .panels import panels


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


def _two_ranks(name, what, meet):
    """Half of `column_row`: x and W-transposed, without what they make."""
    d = Drawing(336, 312)
    d.text(8, 18, name, "fg", "start", 15, "bold")
    d.text(8, 37, what, "muted", "start")
    d.text(107, 116, "×", size=20)
    d.text(218, 116, "=", size=20)
    d.line([(280, 206), (280, 241)], "fg", "arrow")
    d.text(268, 228, meet, "muted", "end")
    _matrix(d, 235, 244, 90, 44, [2], "columns", "")
    d.text(224, 271, "whole on every rank", "fg", "end")
    return d


def column_row():
    """Column-parallel and row-parallel, two ranks."""
    column = _two_ranks("Column-parallel", "the outputs are divided", "all-gather")
    _matrix(column, 10, 85, 84, 50, [None], "rows", "x  [tokens, in]")
    _matrix(column, 121, 55, 84, 110, [0, 1], "columns", "Wᵀ  [in, out]")
    _matrix(column, 235, 85, 90, 50, [0, 1], "columns", "y  [tokens, out]")
    row = _two_ranks("Row-parallel", "the inputs are divided", "all-reduce")
    _matrix(row, 10, 85, 84, 50, [0, 1], "columns", "x  [tokens, in]")
    _matrix(row, 121, 55, 84, 110, [0, 1], "rows", "Wᵀ  [in, out]")
    _matrix(row, 235, 51, 90, 50, [0], "rows", "")
    row.text(280, 117, "+", size=18)
    _matrix(row, 235, 123, 90, 50, [1], "rows", "two partial sums")
    alts = (
        "Two ways to divide y = x W-transposed between two ranks. Column-parallel: each rank holds "
        "half of the columns of W-transposed and computes half of y's columns; an all-gather joins "
        "them.",
        "Row-parallel: each rank holds half of the rows of W-transposed and half of x's "
        "columns; each computes a partial sum as large as y, and an all-reduce adds the two.",
    )
    caption = (
        "Blue is rank 0, orange is rank 1, green is the same on both, grey is x, which both have. "
        "W is stored as [out, in], so a column of the drawn Wᵀ is a row there."
    )
    return panels([(column, alts[0]), (row, alts[1])], caption)


def mlp():
    """The MLP pairing: the first layer's output stays where the second one needs it."""
    d = Drawing(336, 436)
    for rank, x in ((0, 76), (1, 260)):
        fill = SERIES[rank]
        d.text(x, 16, f"rank {rank}", fill, size=14, extra="bold")
        boxes = (
            (26, "x", "idle", "[tokens, in]"),
            (98, "W₁ half", fill, "[in, hidden/2]"),
            (170, "relu", fill, "[tokens, hidden/2]"),
            (242, "W₂ half", fill, "[hidden/2, out]"),
            (378, "y", "c2", "[tokens, out]"),
        )
        for y, label, look, shape in boxes:
            d.rect(x - 55, y, 110, 30, look, "box", 6)
            d.text(x, y + 20, label, "fg" if look == "idle" else "bg", size=14, extra="bold")
            d.text(x, y + 45, shape, "muted", size=12)
        for y in (74, 146, 218, 290):
            d.line([(x, y), (x, y + 22)], "fg", "arrow")
        d.line([(x, 353), (x, 376)], "c2", "arrow")
    d.rect(21, 314, 294, 38, "fg", "box", 6)
    d.text(168, 338, "all-reduce, once", "bg", size=14, extra="bold")
    for line, word in enumerate(("nothing", "crosses", "here")):
        d.text(168, 172 + 16 * line, word, "muted", size=12)
    alt = (
        "The MLP on two ranks. Each rank multiplies the whole x by its half of W1, applies relu to "
        "its own half, and multiplies by its half of W2. Nothing crosses between the ranks until "
        "one all-reduce adds the two partial sums at the end; then both ranks have the whole y."
    )
    caption = (
        "relu works element by element, so it may be applied to a half. It stands for the "
        "activation of a real model, such as SiLU(gate) × up, which is elementwise too."
    )
    return d.figure(alt, caption)


def ring(num_ranks=4):
    """Ring all-reduce, replayed step by step: whose values every chunk of every rank holds."""
    p, steps = num_ranks, 2 * (num_ranks - 1)
    held = [[{r} for _ in range(p)] for r in range(p)]
    says = [f"Start. Every rank has values of its own in all {p} chunks, and none is a sum yet."]
    frames = [_ring_frame("start", held, [])]
    for step in range(steps):
        adds, fresh = step < p - 1, [[set(chunk) for chunk in row] for row in held]
        sent = [(r - step) % p if adds else (r + 1 - (step - p + 1)) % p for r in range(p)]
        for r, chunk in enumerate(sent):
            fresh[(r + 1) % p][chunk] |= held[r][chunk]
        held = fresh
        name = f"step {step + 1} of {steps}: {'reduce-scatter' if adds else 'all-gather'}"
        frames.append(_ring_frame(name, held, sent))
        done = sum(len(chunk) == p for chunk in held[0])
        most = max(len(chunk) for chunk in held[0])
        told = (
            f"rank 0 passes chunk {sent[0]} to rank 1, which adds its own. The fullest chunk of "
            f"a rank is a sum of {most}."
            if adds
            else f"rank 0 passes its finished chunk {sent[0]} to rank 1, which keeps it. Every "
            f"rank has {done} finished chunks of {p}."
        )
        says.append(f"{name[0].upper()}{name[1:]}. All ranks at once: {told}")
    assert all(len(chunk) == p for row in held for chunk in row)
    caption = (
        "A row is a rank's buffer, a column a chunk. The strips of colour in a chunk say whose "
        "values it holds: the first strip is rank 0's. In each step every "
        f"rank passes one chunk to the next, and rank {p - 1} to rank 0. Every rank sends in all "
        f"{steps} steps, 1/{p} of the buffer each time."
    )
    return panels(list(zip(frames, says, strict=True)), caption, says, frames=True)


def _ring_frame(name, held, sent, wide=62, high=28, pitch=50):
    """The buffers of all ranks after one step; sent[r] is the chunk that rank r passed on."""
    p, left, top = len(held), 54, 66
    d = Drawing(left + p * wide + 20, top + p * pitch - 8)
    d.text(left, 15, name, "fg", "start", 13, "bold")
    for c in range(p):
        d.text(left + (c + 0.5) * wide, 38, f"chunk {c}", "muted", size=12)
    for r, row in enumerate(held):
        y = top + r * pitch
        d.text(left - 8, y + 19, f"rank {r}", SERIES[r], "end", 12, "bold")
        for c, whose in enumerate(row):
            x, strip = left + c * wide, (wide - 10) / p
            full = len(whose) == p
            d.rect(x + 2, y, wide - 4, high, "fg" if full else "bg", "box")
            if full:
                d.text(x + wide / 2, y + 19, "sum", "bg", size=13)
            for q in () if full else whose:
                d.rect(x + 5 + q * strip, y + 3, strip - 1, high - 6, SERIES[q])
    for r, c in enumerate(sent):
        x, y = left + (c + 0.5) * wide, top + r * pitch + high
        if r < p - 1:
            d.line([(x, y + 2), (x, y + pitch - high - 1)], "fg", "arrow")
        else:  # round the outside, back to rank 0
            right, over = left + p * wide + 8, top - 18
            d.line([(x, y + 2), (x, y + 8), (right, y + 8), (right, over), (x, over), (x, top - 1)],
                   "fg", "arrow")  # fmt: skip
    return d
