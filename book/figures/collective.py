"""What collectives do: before and after, rank by rank; and three ways to run an all-reduce."""

from labkit.svg import SERIES, Drawing

from .panels import panels

LETTERS = "abc"
SUB = "₀₁₂"
W, H = 34, 28


def _buffers(d, x, y, rows, name=True):
    """rows[rank] is a list of (label, look) cells or None."""
    for rank, row in enumerate(rows):
        if name:
            d.text(x - 8, y + rank * H + 19, f"rank {rank}", f"c{rank}", "end", 12, "bold")
        for k, cell in enumerate(row):
            label, look = cell or ("", "bg")
            d.rect(x + k * W, y + rank * H, W, H - 4, look, "box" if look == "bg" else "edge")
            if label:
                d.text(x + (k + 0.5) * W, y + rank * H + 17, label, "bg", size=13)


def collectives():
    """The four collectives among three ranks: what each brings, what each has afterwards."""
    own = [[(LETTERS[r] + SUB[k], SERIES[r]) for k in range(3)] for r in range(3)]
    total = [("Σ" + SUB[k], "fg") for k in range(3)]
    diagonal = [[own[r][k] if r == k else None for k in range(3)] for r in range(3)]
    cases = (
        (
            "all-reduce",
            "everybody gets the whole sum",
            own,
            [total] * 3,
            "Before: every rank has a whole buffer of its own. After: every rank has the sum.",
        ),
        (
            "reduce-scatter",
            "rank r gets block r of the sum",
            own,
            [[total[k] if r == k else None for k in range(3)] for r in range(3)],
            "Before: every rank has a whole buffer of its own. After: rank r has block r of the "
            "sum and nothing else.",
        ),
        (
            "all-gather",
            "everybody gets every block",
            diagonal,
            [[own[k][k] for k in range(3)]] * 3,
            "Before: rank r has block r. After: every rank has all the blocks, in rank order.",
        ),
        (
            "all-to-all",
            "block k goes to rank k",
            own,
            [[own[k][r] for k in range(3)] for r in range(3)],
            "Before: every rank has a block for every rank. After: rank r has the blocks that "
            "were meant for it, one from each rank. Nothing is added.",
        ),
    )
    drawings = []
    for name, what, before, after, alt in cases:
        d = Drawing(336, 142)
        d.text(52, 16, name, "fg", "start", 15, "bold")
        d.text(190, 136, what, "muted", size=12)
        _buffers(d, 52, 34, before)
        d.line([(162, 74), (220, 74)], "fg", "arrow")
        _buffers(d, 228, 34, after, name=False)
        drawings.append((d, f"{name} among three ranks. {alt}"))
    return panels(
        drawings,
        "Three ranks, buffers of three blocks. Letters and colours say whose values they are: "
        "a₁ is rank 0's block 1. Σ is a finished sum: Σ₁ = a₁ + b₁ + c₁. An empty box is memory "
        "that the rank need not have.",
    )


def sequence_parallel():
    """Tensor parallelism and sequence parallelism round an MLP: who holds which tokens."""
    drawings = []
    for title, split, first, last, alt in (
        (
            "Tensor parallelism",
            False,
            "(nothing crosses)",
            "all-reduce",
            "Both ranks run the norm on all four tokens. In the MLP each has half of the hidden "
            "units. An all-reduce gives both all tokens again.",
        ),
        (
            "Sequence parallelism",
            True,
            "all-gather",
            "reduce-scatter",
            "Each rank runs the norm on two of four tokens. An all-gather gives both all tokens "
            "for the MLP, of which each has half of the hidden units. A reduce-scatter leaves "
            "each rank with its own two tokens, complete.",
        ),
    ):
        d = Drawing(336, 330)
        d.text(168, 16, title, "fg", size=15, extra="bold")
        for rank in range(2):
            d.text(130 + rank * 130, 38, f"rank {rank}", f"c{rank}", size=13, extra="bold")
        for y, label in ((48, "norm"), (148, "MLP"), (248, "norm")):
            d.text(8, y + 32, label, "muted", "start", 13)
            for rank in range(2):
                x = 90 + rank * 130
                for token in range(4):
                    if label == "MLP":
                        d.rect(x + rank * 40, y + token * 14, 40, 14, SERIES[rank], "edge")
                        d.rect(x + (1 - rank) * 40, y + token * 14, 40, 14, "bg", "box")
                    else:
                        mine = not split or token // 2 == rank
                        fill = SERIES[rank] if mine and split else "c2" if mine else "bg"
                        d.rect(x, y + token * 14, 80, 14, fill, "edge" if mine else "box")
        for y, name in ((126, first), (226, last)):
            if name[0] == "(":
                d.text(195, y + 4, "nothing crosses", "muted", size=12)
            else:
                d.rect(110, y - 12, 170, 24, "fg", "box", 6)
                d.text(195, y + 5, name, "bg", size=13, extra="bold")
        d.text(195, 322, "rows: four tokens; columns: hidden units", "muted", size=12)
        drawings.append((d, alt))
    return panels(
        drawings,
        "Filled is what a rank holds and works on; green is the same on both ranks, so the norm is "
        "computed twice. Under sequence parallelism nothing is held or computed twice between the "
        "blocks.",
    )


def ways_to_all_reduce():
    """What rank 0 receives in a one-shot, a two-shot and a ring all-reduce among four ranks."""
    at = [(54, 62), (196, 62), (196, 182), (54, 182)]
    drawings = []
    for name, lines, alt in (
        (
            "one-shot",
            ("1 round", "reads 3 payloads"),
            "Rank 0 reads the whole buffers of ranks 1, 2 and 3 in one round.",
        ),
        (
            "two-shot",
            ("2 rounds", "reads 2 × 3/4 payload"),
            "In a first round rank 0 reads its quarter from ranks 1, 2 and 3 and adds it; in a "
            "second round it reads the finished quarters of the three.",
        ),
        (
            "ring",
            ("6 hops, one after the other", "receives 6 × 1/4 payload"),
            "Rank 0 receives a quarter of the payload from its left neighbour six times.",
        ),
    ):
        d = Drawing(250, 262)
        d.text(125, 18, name, "fg", size=15, extra="bold")
        for peer in (1, 2, 3):
            (x, y), (x0, y0) = at[peer], at[0]
            length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
            ux, uy = (x0 - x) / length, (y0 - y) / length
            for side, colour in {"one-shot": [(0, "c1")], "two-shot": [(-5, "c1"), (5, "c2")]}.get(
                name, [(0, "c0")]
            ):
                dx, dy = -uy * side, ux * side
                start, end = (
                    (x + 26 * ux + dx, y + 26 * uy + dy),
                    (x0 - 28 * ux + dx, y0 - 28 * uy + dy),
                )
                if name == "one-shot":
                    d.line([start, end], colour, "arrow thick")
                elif name == "two-shot":
                    d.line([start, end], colour, "arrow")
        if name == "ring":
            for a, b in ((0, 1), (1, 2), (2, 3), (3, 0)):
                (x, y), (x1, y1) = at[a], at[b]
                length = abs(x1 - x) + abs(y1 - y)
                ux, uy = (x1 - x) / length, (y1 - y) / length
                colour = "c0" if b == 0 else "muted"
                d.line([(x + 26 * ux, y + 26 * uy), (x1 - 28 * ux, y1 - 28 * uy)], colour, "arrow")
        for rank, (x, y) in enumerate(at):
            d.rect(x - 24, y - 18, 48, 36, "fg" if rank == 0 else "idle", "edge", 8)
            d.text(x, y + 5, f"rank {rank}", "bg" if rank == 0 else "fg", size=12)
        d.text(125, 228, lines[0], "fg", size=13)
        d.text(125, 247, lines[1], "fg", size=13)
        drawings.append((d, f"{name} all-reduce among four ranks. {alt}"))
    return panels(
        drawings,
        "What rank 0 receives among four ranks; every rank does the same at the same time. A thick "
        "arrow is a whole payload, a thin one a quarter. In two-shot, orange is the first round "
        "(its own quarter of every buffer, to add) and green the second (the finished quarters).",
    )
