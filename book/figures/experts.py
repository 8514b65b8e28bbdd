"""Lab 05 as pictures: sparse layers, their traffic and skew, latent caches, joined attention."""

import math
from functools import cache

import numpy as np
from labbook.labs import lab, solution
from planner import hardware, memory, models, plans
from planner.timing import Load

from labkit.loading import load_module
from labkit.svg import SERIES, Drawing, Plot, ladder

from .panels import WIDTH, key, log_plot, panels

IDS = np.array([[0, 2], [1, 0], [3, 2], [2, 0]])  # of the four tokens of `three_layers`
HIDDEN = 7168  # of DeepSeek-R1, in 16-bit numbers


def given():
    return load_module(lab("lab-05").path / "given_experts.py")


def traffic_of_four():
    """Bytes that all ranks of `three_layers` send: all-reduce, all-gather, exchange."""
    token = HIDDEN * 2
    ring = 2 * (4 - 1) * 4 * token  # an all-reduce of four tokens around four ranks
    placement = solution("lab-05").place_in_order(4, 4)
    both = solution("lab-05").traffic_bytes([row[None] for row in IDS], placement, HIDDEN, 2)
    return ring, *both


def three_layers():
    """Four ranks, four experts, four tokens: sliced, dealt out, and with attention-DP."""
    ring, gathered, exchanged = traffic_of_four()
    rows = np.bincount(IDS.ravel(), minlength=4)
    busy = f"rows: {', '.join(map(str, rows))}"
    layers = (
        ("Sliced: tensor parallelism", _slices, True, f"one all-reduce, {ring:,} bytes",
         "Four ranks. Each has all four tokens and a quarter of each of four experts. One "
         "all-reduce joins them."),
        ("Dealt out, one replica", _wholes, True, f"one all-reduce, {ring:,} bytes; {busy}",
         "Four ranks. Each has all four tokens and one whole expert; rank 1's and rank 3's experts "
         "are chosen by one token each. The same one all-reduce joins them."),
        ("Dealt out, own tokens: attention-DP", _wholes, False,
         f"gather + scatter {gathered:,} bytes; all-to-alls {exchanged:,}",
         "Four ranks. Each has one token and one whole expert; the tokens must be dispatched to "
         "their experts and the results combined."),
    )  # fmt: skip
    caption = (
        "Four tokens as circles, four experts A to D as boxes. Each token chooses two experts, in "
        "which it stands again as a small circle, a row; sliced, every rank works on all of these. "
        "The bytes are what all four ranks send in one layer, for tokens as wide as DeepSeek-R1's "
        "in 16-bit numbers, with ids and weights of the same size."
    )
    return panels([(_layer(*how), alt) for *how, alt in layers], caption)


def _layer(title, experts, everywhere, below):
    d = Drawing(WIDTH, 230)
    d.text(8, 20, title, "fg", "start", 15, "bold")
    for expert in range(4):
        d.text(246 + 46 * expert, 40, "ABCD"[expert], "muted", size=13, extra="bold")
    for rank in range(4):
        y = 48 + 40 * rank
        d.text(8, y + 20, f"rank {rank}", "muted", "start", 13)
        for token in range(4):
            if everywhere or token == rank:
                d.dot(82 + 30 * token, y + 15, SERIES[token], 0, 10)
                d.text(82 + 30 * token, y + 20, str(token), "bg", size=13, extra="bold")
        d.line([(196, y + 15), (216, y + 15)], "muted", "arrow")
        experts(d, rank, 226, y)
    d.text(8, 222, below, "fg", "start", 13)
    return d


def _slices(d, rank, x, y):
    for expert in range(4):
        left = x + 46 * expert
        d.rect(left, y, 40, 30, "bg", "box")
        d.rect(left + 10 * rank, y, 10, 30, "idle", "edge")


def _wholes(d, rank, x, y):
    for expert in range(4):
        left = x + 46 * expert
        d.rect(left, y, 40, 30, "idle" if expert == rank else "bg", "box")
        if expert == rank:
            chose = [token for token in range(4) if expert in IDS[token]]
            for place, token in enumerate(chose):
                at = left + 20 + 12 * (place - (len(chose) - 1) / 2)
                d.dot(at, y + 15, SERIES[token], 0, 5.5)


def reach():
    """To how many other ranks a token is sent: by all-gather, and by all-to-all with 8 choices."""
    ranks = (2, 4, 8, 16, 32, 64, 128, 256)
    words = ("ranks", "ranks that a token is sent to")
    plot = log_plot((2, 256), (0.7, 256), *words, ranks, (1, *ranks))
    for series, ys in enumerate(([p - 1 for p in ranks], [reached(p) for p in ranks])):
        plot.curve(ranks, ys, series)
        plot.points(ranks, ys, series)
    plot.label(20, 60, "all-gather", 0, "end")
    plot.label(60, 4.6, "all-to-all", 1)
    alt = (
        "Number of other ranks that receive a token, against the number of ranks, for 256 experts "
        f"of which 8 are chosen at random. All-gather: all others, 255 of 256. All-to-all: "
        f"{reached(8):.1f} at 8 ranks, and at most 8 however many ranks there are."
    )
    caption = (
        "256 experts, 8 chosen at random, dealt out in order. The all-gather's line is p - 1; the "
        "other is the mean number of different ranks among the eight, without the token's own."
    )
    return panels([(plot, alt)], caption)


def reached(p, experts=256, top_k=8):
    """Mean number of other ranks that hold one of a token's top_k random experts."""
    left_out = math.comb(experts - experts // p, top_k) / math.comb(experts, top_k)
    return (p - 1) * (1 - left_out)


def skew():
    """The busiest of eight ranks over the mean, against rows, for equal and for skewed experts."""
    rows = (1, 2, 4, 8, 16, 32, 64, 100)
    ticks = [(n, str(n)) for n in rows]
    heights = [(n, f"{n} x") for n in (1, 2, 4, 8)]
    plot = Plot(
        (1, 100), (0.9, 9), "rows in the layer", "busiest rank over the mean", ticks, heights,
        True, True, WIDTH, 320,
    )  # fmt: skip
    for series, shares in enumerate(SHARES.values()):
        ys = [busiest_over_mean(shares, n) for n in rows]
        plot.curve(rows, ys, series)
        plot.points(rows, ys, series)
    plot.label(9, 1.2, "equal shares", 0)
    plot.label(16, 3.6, "one rank has 30 %", 1)
    alt = (
        "The busiest of eight ranks, as a multiple of the mean, against the rows of the layer. "
        f"With equal shares it falls from 8 to {busiest_over_mean(SHARES['equal'], 100):.1f} times "
        "at 100 rows. When one rank has 30 percent of the choices it stays near "
        f"{busiest_over_mean(SHARES['skewed'], 100):.1f} times."
    )
    caption = "Exact, from expected_busiest: rows fall on eight ranks by chance."
    return panels([(plot, alt)], caption)


SHARES = {"equal": [1 / 8] * 8, "skewed": [0.3] + [0.1] * 7}


def busiest_over_mean(shares, rows):
    return solution("lab-05").expected_busiest(shares, rows) * len(shares) / rows


PLANS = (("TP", 1, False), ("experts dealt out", 8, False), ("attention-DP", 8, True))


def step_ms(tokens, context, plan, busiest=None):
    """Milliseconds of a step of DeepSeek-R1 on 8 x H200, by the bill; busiest 1: equal loads."""
    _, ep_size, attention_dp = plan
    busiest = busiest or given().busiest_of(256, ep_size)
    shape = given().MODELS["DeepSeek-R1"], given().MACHINES["8 x H200"]
    step_s = solution("lab-05").moe_step_s(tokens, context, ep_size, attention_dp, busiest, *shape)
    return 1e3 * step_s


def crossing(context, busiest=None):
    """The smallest number of tokens at which attention-DP's step is shorter than TP's."""
    tp, _, dp = PLANS
    tokens = range(1, 10_000)
    return next(n for n in tokens if step_ms(n, context, dp, busiest) < step_ms(n, context, tp))


@cache
def room(context, plan):
    """Requests of so much context whose caches fit on 8 x H200 beside R1, by the planner."""
    own = plan[2]
    split = memory.Plan(ep_size=8) if own else memory.Plan(1, 8)
    found = plans.evaluate(models.read("deepseek-r1"), hardware.box("h200"), split, Load(context))
    held = memory.sequence_bytes(found.memory, split, context)
    return int(found.memory["kv_bytes"] / held) * (8 if own else 1)


def moe_steps(context=2000):
    """Three splits of DeepSeek-R1 on eight H200s: the step against the tokens in it."""
    words = ("tokens in the step", "ms a step, a floor")
    ticks = (16, 64, 256, 1024, 4096), (10, 20, 50)
    plot = log_plot((16, 4096), (8, 50), *words, *ticks, height=340)
    for series, plan in zip((0, 3, 4), PLANS, strict=True):
        most = room(context, plan)
        tokens = [n for n in ladder(16, 4096, 2**0.25) if n < most] + [most]
        plot.curve(tokens, [step_ms(n, context, plan) for n in tokens], series)
        plot.points([most], [step_ms(most, context, plan)], series)
        plot.text(plot.x(most) + 9, plot.y(step_ms(most, context, plan)) + 4, f"{most:,}",
                  anchor="start")  # fmt: skip
    for row, (name, series) in enumerate((("attention-DP", 4), ("dealt out", 3), ("TP", 0))):
        plot.label(300, 16 * 0.86**row, name, series)
    cross = crossing(context)
    plot.text(plot.vertical(cross) + 6, plot.bottom - 8, str(cross), anchor="start")
    alt = (
        f"Milliseconds of a step against its tokens, at {context:,} tokens of context. TP is "
        f"lowest for few tokens, dealt-out experts a little above it. Attention-DP starts highest "
        f"and is lowest from {cross} tokens on. Curves end at the requests whose caches fit: "
        f"{room(context, PLANS[0]):,} for TP, {room(context, PLANS[2]):,} with attention-DP."
    )
    caption = (
        f"Each curve ends where its caches are full. DeepSeek-R1 on 8 x H200 by moe_step_s, "
        f"{context:,} tokens of context each. The dashed line: {cross} tokens, from where "
        "attention-DP has the shorter step."
    )
    return panels([(plot, alt)], caption)


def caches():
    """Eight ranks' caches: eight equal ones under TP, sixteen different ones with attention-DP."""
    tp, dp = Drawing(WIDTH, 176), Drawing(WIDTH, 176)
    for d, title in (
        (tp, "TP: 2 requests, on every rank"),
        (dp, "Attention-DP: 16 requests, 2 on each rank"),
    ):
        d.text(8, 20, title, "fg", "start", 15, "bold")
        for rank in range(8):
            x = 10 + 50 * rank
            d.text(x + 22, 168, f"rank {rank}" if rank % 2 == 0 else "", "muted")
            d.rect(x, 34, 44, 118, "bg", "box")
            for slot in range(2):
                request = slot if d is tp else 2 * rank + slot
                d.rect(x + 4, 38 + 56 * slot, 36, 52, SERIES[request % 6], "edge")
                d.text(x + 22, 69 + 56 * slot, str(request), "bg", size=15, extra="bold")
    alts = (
        "Eight ranks under tensor parallelism: each holds the latents of the same two requests, 0 "
        "and 1.",
        "Eight ranks with data-parallel attention: each holds two requests of its own, 0 to 15.",
    )
    caption = (
        "A latent belongs to all heads, so ranks that divide the heads all hold it. Numbers are "
        "requests; each rank has room for two."
    )
    return panels([(tp, alts[0]), (dp, alts[1])], caption)


SIZES = np.exp([1.0, 2.5, 0.5, 1.5, 0.7, 2.0])  # exp of six positions' scores, of `joined`


def joined():
    """Two ranks' parts of one softmax: sums of exp(score), each rank's own, and both."""
    d = Drawing(WIDTH, 226)
    scale = 380 / SIZES.sum()
    for row, (label, chosen) in enumerate(
        (("rank 0", [0, 2, 4]), ("rank 1", [1, 3, 5]), ("both", range(6)))
    ):
        y, x = 20 + 66 * row, 14.0
        total = SIZES[list(chosen)].sum()
        share = f", weight {total / SIZES.sum():.2f}" if row < 2 else ""
        d.text(14, y, f"{label}: sum {total:.2f}, lse {math.log(total):.2f}{share}", "fg", "start")
        for position in sorted(chosen, key=lambda n: (n % 2, n)):
            width = SIZES[position] * scale
            d.rect(x, y + 10, width, 30, SERIES[position % 2], "edge")
            if width > 18:
                d.text(x + width / 2, y + 30, str(position), "bg", size=13, extra="bold")
            x += width
    key(d, 204, {"position on rank 0": "c0", "position on rank 1": "c1"})
    alt = (
        "Six positions of a request, drawn as long as exp of their scores. Rank 0 has positions 0, "
        "2 and 4 and rank 1 has 1, 3 and 5. The two sums add up to the sum over all positions, and "
        "each rank's output is weighed by its part of it."
    )
    caption = (
        "Each rank has divided by its own sum. The logarithm of that sum, one number per head, is "
        "all that the others need to know."
    )
    return panels([(d, alt)], caption)


def join_weights():
    """(weight of rank 0, of rank 1) in `joined`."""
    return SIZES[0::2].sum() / SIZES.sum(), SIZES[1::2].sum() / SIZES.sum()
