"""The guide's and the deep dive's diagrams."""

from labkit.svg import Drawing

from .panels import SPLITS, panels


def five_ways():
    """What each of two ranks holds under DP, TP, PP, EP and CP: layers run downwards."""
    ways = (
        ("DP", "by requests", "nothing crosses", "each rank holds the whole model"),
        ("TP", "inside a layer", "sums, twice per layer", "each rank holds half of every layer"),
        ("PP", "between layers", "one activation per cut", "each rank holds half of the layers"),
        (
            "EP",
            "by experts",
            "tokens, there and back",
            "each rank holds half of the experts and a copy of the attention",
        ),
        (
            "CP",
            "by tokens",
            "keys, values or partial results",
            "each rank holds the whole model and half of the tokens of a sequence",
        ),
    )
    drawings = []
    for name, cut, crosses, holds in ways:
        d = Drawing(216, 236)
        d.text(108, 18, name, SPLITS[name], size=17, extra="bold")
        d.text(108, 36, f"cut {cut}", "muted", size=12)
        for rank in range(2):
            x, fill = 12 + rank * 102, SPLITS[name]
            d.text(x + 45, 58, f"rank {rank}", "muted", size=12)
            for layer in range(4):
                _held(d, name, rank, layer, x, 66 + layer * 30, fill)
        d.text(108, 208, "crosses:", "muted", size=12)
        d.text(108, 226, crosses, "fg", size=12)
        drawings.append((d, f"{name}, cut {cut}: {holds}. What crosses: {crosses}."))
    return panels(
        drawings,
        "Each split has its colour, in every figure where splits stand side by side. "
        "Filled is what a rank holds; empty is what it does not have. Under EP grey is the "
        "attention, copied on both ranks, between layers of experts. Under CP both ranks have all "
        "the weights (grey), and the tokens of one sequence are divided (colour).",
    )


def _held(d, name, rank, layer, x, y, fill):
    """One layer of one rank."""

    def cells(count, mine):
        for k in range(count):
            look = fill if mine(k) else "bg"
            d.rect(x + k * 90 / count, y, 90 / count, 24, look, "edge" if mine(k) else "box")

    if name == "DP":
        cells(1, lambda k: True)
    elif name == "TP":
        cells(2, lambda k: k == rank)
    elif name == "PP":
        cells(1, lambda k: layer // 2 == rank)
    elif name == "EP" and layer % 2:
        cells(4, lambda k: k // 2 == rank)
    elif name == "EP":
        d.rect(x, y, 90, 24, "idle", "edge")
        d.text(x + 45, y + 16, "attention", "fg", size=11)
    else:
        d.rect(x, y, 90, 10, "idle", "edge")
        for token in range(8):
            mine = token // 4 == rank
            look = (fill, "edge") if mine else ("bg", "box")
            d.rect(x + token * 11.25, y + 12, 11.25, 12, *look)
