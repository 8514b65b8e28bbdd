"""Lab 04's schedules as pictures."""

import re
from functools import cache

from labbook.labs import capture, lab, solution

from labkit.loading import load_module
from labkit.svg import SERIES, Drawing, Plot, ladder

from .panels import SPLITS, WIDTH, panels, part


@cache
def drawing():
    """Lab 04's program that draws grids."""
    return load_module(lab("lab-04").path / "grid.py")


def straggler(stage_s=(1, 1, 2, 1), m=8):
    """One slow stage: the one behind it waits for each microbatch."""
    lab04, page = solution("lab-04"), drawing()
    total = lab04.makespan_s(list(stage_s), m)
    rows, arrivals = [], [0] * m
    for seconds in stage_s:
        row = []
        for i in range(m):
            row += [None] * (arrivals[i] - len(row)) + [i] * seconds
            arrivals[i] = len(row)
        rows.append(row + [None] * (total - len(row)))
    bottom = 8 + len(rows) * page.CELL_H
    d = Drawing(WIDTH, bottom + 30)
    page.rows(d, rows, 8, (WIDTH - 4 - page.LEFT) / total, "stage")
    d.text(page.LEFT, bottom + 20, f"{total} ticks", "muted", "start")
    slow = max(range(len(stage_s)), key=lambda s: stage_s[s])
    alt = (
        f"{len(stage_s)} stages, {m} microbatches. Stage {slow} works without a pause; the "
        "stage behind it waits one tick per microbatch, and those before it finish early."
    )
    fast = lab04.makespan_s([1] * len(stage_s), m)
    caption = f"Stage {slow} is twice as slow. The run takes {total} ticks instead of {fast}."
    return d.figure(alt, caption)


def schedules(p=4, m=8):
    """GPipe, 1F1B, interleaved 1F1B and zero bubble: the same work each time, on one time axis."""
    lab04, page = solution("lab-04"), drawing()
    cases = (  # name, grid, ticks per cell, what changed
        ("GPipe", lab04.replay(lab04.gpipe_order(p, m)), 1, "all forwards, then all backwards"),
        ("1F1B", lab04.replay(lab04.one_f_one_b_order(p, m)), 1, "backwards start early"),
        (
            "interleaved",
            lab04.replay(lab04.interleaved_order(p, m, 2)),
            0.5,
            "two thin stages per rank",
        ),
        ("zero bubble (ZBV)", _zbv(p, m), 0.5, "weight gradients fill the gaps"),
    )
    tick = (WIDTH - 4 - page.LEFT) / max(len(grid[0]) * unit for _, grid, unit, _ in cases)
    block = p * page.CELL_H + 62
    d = Drawing(WIDTH, 0)
    said = []
    for k, (name, grid, unit, change) in enumerate(cases):
        bubble = lab04.grid_bubble(grid)
        d.text(page.LEFT, k * block + 18, name, "fg", "start", 14, "bold")
        d.text(page.LEFT, k * block + 35, f"{change}; bubble {bubble}", "muted", "start")
        page.rows(d, grid, k * block + 44, tick * unit)
        said.append(f"{name}: {change}, {len(grid[0]) * unit:g} ticks, bubble {bubble}")
    page.key(d, len(cases) * block, *(grid for _, grid, _, _ in cases))
    alt = f"{p} ranks, {m} microbatches, the same work in four orders. " + "; ".join(said) + "."
    caption = (
        "The same work four times, on one time axis. The first three are replayed from lab 04's "
        "orders; the last is the order that Torch's ZBVZeroBubble gives, from the lab's captures. "
        "Compare the right edges."
    )
    return d.figure(alt, caption)


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


def decode_loop(p=4, flights=(1, 2, 4), ticks=10):
    """Decoding goes round, tick by tick: with fewer microbatches than stages, stages idle."""
    drawings = [_round_trips(p, in_flight, ticks) for in_flight in flights]
    says = []
    for t in range(ticks):
        busy = {n: sum(_works_on(t, s, p, n) is not None for s in range(p)) for n in flights}
        told = ", ".join(f"{busy[n]} of {p} with {n} in flight" for n in flights)
        says.append(f"Tick {t} of {ticks - 1}. Stages at work: {told}.")
    return panels(
        drawings,
        "Decoding: the number is the microbatch, which enters stage 0 again only after it has left "
        "the last stage. A pipeline is full when as many are in flight as it has stages, if hops "
        "take no time.",
        says,
        start=p,  # the first microbatch is back on stage 0, and the grids differ
    )


def _works_on(tick, stage, p, in_flight):
    """The microbatch on a stage in a tick, when decoding goes round; None while it idles."""
    number = (tick - stage) % p
    return number if tick >= stage and number < in_flight else None


def _round_trips(p, in_flight, ticks, size=22):
    """(drawing, what it says) of one number of microbatches: the loop, and the grid it leaves."""
    left, top, box, gap = 58, 112, 42, 14
    d = Drawing(left + 8 + ticks * size, top + p * size + 8)
    one = "microbatch" if in_flight == 1 else "microbatches"
    d.text(left, 16, f"{in_flight} {one} in flight", "fg", "start", 13, "bold")
    spots = [left + stage * (box + gap) for stage in range(p)]
    for stage, x in enumerate(spots):
        d.text(x + box / 2, 38, f"stage {stage}", "muted", size=12)
        d.rect(x, 44, box, 24, "idle", "edge", 5)
        if stage:
            d.line([(x - gap + 1, 56), (x - 2, 56)], "muted", "arrow")
    back = [(spots[-1] + box / 2, 69), (spots[-1] + box / 2, 92), (spots[0] + box / 2, 92)]
    d.line([*back, (spots[0] + box / 2, 71)], "muted", "arrow")
    d.text((back[0][0] + back[2][0]) / 2, 86, "its next token begins", "muted", size=12)
    rows = [[_works_on(t, stage, p, in_flight) for t in range(ticks)] for stage in range(p)]
    for stage in range(p):
        d.text(left - 8, top + (stage + 0.66) * size, f"stage {stage}", "muted", "end", 12)
    for t in range(ticks):
        with part(d, "from", t):
            d.rect(left + t * size, top, size, p * size, "idle", "edge")
            for stage, row in enumerate(rows):
                if row[t] is not None:
                    x, y = left + t * size, top + stage * size
                    d.rect(x, y, size, size, SERIES[row[t]], "edge")
                    d.text(x + size / 2, y + 0.66 * size, str(row[t]), "bg", size=11)
        with part(d, "step", t):
            for x, row in zip(spots, rows, strict=True):
                if row[t] is not None:
                    d.rect(x, 44, box, 24, SERIES[row[t]], "edge", 5)
                    d.text(x + box / 2, 61, str(row[t]), "bg", size=13, extra="bold")
    full = [cell is not None for row in rows for cell in row[p:]]
    share = sum(full) / len(full)
    return d, f"{p} stages, {in_flight} in flight: {share:.0%} of the cells work once full."


def two_nodes():
    """Two nodes of four GPUs: TP across all eight, and TP inside with PP across."""
    drawings = []
    for title, stages, alt in (
        ("TP=8", 1, "One ring of eight ranks runs through both nodes, in every layer, twice."),
        (
            "TP=4 × PP=2",
            2,
            "Four ranks of node 0 form the first stage and ring among themselves; four ranks of "
            "node 1 form the second. One activation crosses between the nodes.",
        ),
    ):
        d = Drawing(336, 236)
        d.text(168, 16, title, "fg", size=15, extra="bold")
        for node in range(2):
            x = 12 + node * 170
            d.rect(x, 30, 142, 166, "bg", "box", 8)
            d.text(x + 71, 186, f"node {node}", "muted", size=12)
            fill = SPLITS["TP"]
            spots = [(x + 38, 64), (x + 104, 64), (x + 104, 134), (x + 38, 134)]
            ring = [*spots, spots[0]]
            if stages == 1:  # one ring through both nodes
                ring = spots if node else [*spots[2:], *spots[:2]]
            d.line(ring, "muted")  # the ranks stand upon it
            for k, (cx, cy) in enumerate(spots):
                d.rect(cx - 22, cy - 17, 44, 34, fill, "edge", 6)
                d.text(cx, cy + 4, f"rank {node * 4 + k}", "bg", size=11)
        if stages == 1:
            d.line([(138, 54), (198, 54)], SPLITS["TP"], "thick")
            d.line([(138, 144), (198, 144)], SPLITS["TP"], "thick")
            d.text(168, 220, "the ring crosses twice, in each of its hops", "fg", size=12)
        else:
            d.line([(154, 99), (182, 99)], SPLITS["PP"], "arrow thick")
            d.text(168, 220, "one activation crosses, once", "fg", size=12)
        drawings.append((d, f"{title} on two nodes of four GPUs. {alt}"))
    return panels(
        drawings,
        "Boxes are nodes, grey lines the links inside them. What leaves a node is thick. The text "
        "has nodes of eight; four are drawn. Blue is what TP needs, green what PP needs.",
    )


def bubble_curves():
    """Bubble against microbatches for several depths, with the 10% line."""
    lab04 = solution("lab-04")
    ticks = [(v / 100, f"{v}%") for v in (0, 10, 25, 50, 75, 100)]
    plot = Plot(
        (1, 128), (0, 1), "microbatches m", "bubble", [(m, str(m)) for m in (1, 4, 16, 64)], ticks,
        log_x=True, width=WIDTH, height=320,
    )  # fmt: skip
    plot.line([(plot.left, plot.y(0.1)), (plot.right, plot.y(0.1))], "muted", "dash thin")
    xs = sorted({round(m) for m in ladder(1, 128, 2 ** (1 / 8))})
    for series, p in enumerate((2, 4, 8, 16)):
        plot.curve(xs, [float(lab04.bubble_fraction(p, m)) for m in xs], series)
        need = lab04.min_microbatches(p, 0.1)
        if need <= 128:
            plot.points([need], [0.1], series)
        plot.label(1.45 * (p - 1), 0.42, f"p={p}", series)
    needs = ", ".join(f"{lab04.min_microbatches(p, 0.1)} for p = {p}" for p in (2, 4, 8, 16))
    alt = (
        "Bubble against the number of microbatches for 2, 4, 8 and 16 stages. Every curve starts "
        "at (p-1)/p and falls towards zero."
    )
    return plot.figure(
        alt,
        f"More stages need more microbatches. For a bubble of at most 10%: {needs}.",
    )
