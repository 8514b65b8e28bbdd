"""What collectives do: before and after, rank by rank; and three ways to run an all-reduce."""

from labkit.svg import SERIES, Drawing

from .panels import panels

LETTERS = "abc"
SUB = "₀₁₂"
RANKS = ("c0", "c1", "c3")  # green is left to what all ranks hold alike
W, H = 34, 28
RANKS_AT = ((54, 62), (196, 62), (196, 182), (54, 182))  # four ranks, round a ring


def _buffers(d, x, y, rows, name=True):
    """rows[rank] is a list of (label, look) cells or None."""
    for rank, row in enumerate(rows):
        if name:
            d.text(x - 8, y + rank * H + 19, f"rank {rank}", RANKS[rank], "end", 12, "bold")
        for k, cell in enumerate(row):
            label, look = cell or ("", "bg")
            d.rect(x + k * W, y + rank * H, W, H - 4, look, "box" if look == "bg" else "edge")
            if label:
                d.text(x + (k + 0.5) * W, y + rank * H + 17, label, "bg", size=13)


def _cases():
    """(name, what it does, buffers before, buffers after, alternative text) of each collective."""
    own = [[(LETTERS[r] + SUB[k], RANKS[r]) for k in range(3)] for r in range(3)]
    total = [("Σ" + SUB[k], "fg") for k in range(3)]
    diagonal = [[own[r][k] if r == k else None for k in range(3)] for r in range(3)]
    return (
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


def collectives():
    """The four collectives among three ranks: what each brings, what each has afterwards."""
    drawings = []
    for name, what, before, after, alt in _cases():
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


def _round_an_mlp(title, split, first, last):
    """Norm, MLP, norm on two ranks, each with its tokens; split: a norm has half of them."""
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
    return d


def sequence_parallel():
    """Tensor parallelism and sequence parallelism round an MLP: who holds which tokens."""
    tensor, sequence = (
        _round_an_mlp("Tensor parallelism", False, "(nothing crosses)", "all-reduce"),
        _round_an_mlp("Sequence parallelism", True, "all-gather", "reduce-scatter"),
    )
    alts = (
        "Both ranks run the norm on all four tokens. In the MLP each has half of the hidden "
        "units. An all-reduce gives both all tokens again.",
        "Each rank runs the norm on two of four tokens. An all-gather gives both all tokens "
        "for the MLP, of which each has half of the hidden units. A reduce-scatter leaves "
        "each rank with its own two tokens, complete.",
    )
    return panels(
        [(tensor, alts[0]), (sequence, alts[1])],
        "Filled is what a rank holds and works on; green is the same on both ranks, so the norm is "
        "computed twice. Under sequence parallelism no token is held or computed twice between the "
        "blocks.",
    )


TO_RANK_0, ROUND_THE_RING = ((1, 0), (2, 0), (3, 0)), ((0, 1), (1, 2), (2, 3), (3, 0))
WAYS = (  # name, arrows, (side, colour) of each, look, words below, alternative text
    (
        "one-shot",
        TO_RANK_0,
        [(0, "c1")],
        "arrow thick",
        ("1 round", "reads 3 payloads"),
        "Rank 0 reads the whole buffers of ranks 1, 2 and 3 in one round.",
    ),
    (
        "two-shot",
        TO_RANK_0,
        [(-5, "c1"), (5, "c2")],
        "arrow",
        ("2 rounds", "reads 2 × 3/4 payload"),
        "In a first round rank 0 reads its quarter from ranks 1, 2 and 3 and adds it; in a "
        "second round it reads the finished quarters of the three.",
    ),
    (
        "ring",
        ROUND_THE_RING,
        [(0, "c0")],
        "arrow",
        ("6 hops, one after the other", "receives 6 × 1/4 payload"),
        "Rank 0 receives a quarter of the payload from its left neighbour six times.",
    ),
)


def ways_to_all_reduce():
    """What rank 0 receives in a one-shot, a two-shot and a ring all-reduce among four ranks."""
    drawings = []
    for name, arrows, sides, extra, lines, alt in WAYS:
        d = Drawing(250, 262)
        d.text(125, 18, name, "fg", size=15, extra="bold")
        for a, b in arrows:
            for side, colour in sides:
                _arrow(d, RANKS_AT[a], RANKS_AT[b], side, colour if b == 0 else "muted", extra)
        for rank, (x, y) in enumerate(RANKS_AT):
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


def hierarchy():
    """An all-reduce over two nodes of four GPUs: inside each node, across, inside again."""
    drawings = []
    for stage, (name, what, alt) in enumerate(
        (
            ("1. reduce-scatter inside", "a quarter of the node's sum each", "its node's sum"),
            ("2. all-reduce across", "each quarter over its own card", "the whole sum"),
            ("3. all-gather inside", "every GPU gets all quarters", "the whole sum"),
        )
    ):
        d = Drawing(250, 186)
        d.text(125, 16, name, "fg", size=14, extra="bold")
        for node in range(2):
            x = 4 + node * 134
            d.rect(x, 28, 108, 130, "bg", "box", 8)
            d.text(x + 54, 150, f"node {node}", "muted", size=12)
            for gpu in range(4):
                for block in range(4):
                    held = stage == 2 or block == gpu
                    fill = ("c2" if stage else SERIES[node]) if held else "bg"
                    at = x + 14 + block * 20, 36 + gpu * 25
                    d.rect(*at, 20, 18, fill, "edge" if held else "box")
        if stage == 1:
            for gpu in range(4):
                y = 45 + gpu * 25
                d.line([(113, y), (137, y)], "c2", "thick")
        d.text(125, 178, what, "fg", size=12)
        held = "all four quarters" if stage == 2 else "one quarter"
        drawings.append((d, f"{name[3:]}: {what}. Each GPU then holds {held} of {alt}."))
    return panels(
        drawings,
        "Two nodes of four GPUs. A row is a GPU's buffer after the stage. Blue and orange are sums "
        "of one node, green is the sum of both; only the second stage meets the slow link.",
    )


def _arrow(d, start, end, side, colour, extra):
    """From one rank's box to another's, `side` pixels beside the straight line between them."""
    (x, y), (x1, y1) = start, end
    length = ((x1 - x) ** 2 + (y1 - y) ** 2) ** 0.5
    ux, uy = (x1 - x) / length, (y1 - y) / length
    dx, dy = -uy * side, ux * side
    ends = [(x + 26 * ux + dx, y + 26 * uy + dy), (x1 - 28 * ux + dx, y1 - 28 * uy + dy)]
    d.line(ends, colour, extra)
