"""One GPU's memory as a stacked bar, and the latency-throughput front of all plans, in one SVG."""

import math

from labkit.svg import SERIES, Plot, ladder

GB = 1e9
WIDTH, HEIGHT, BAR = 980, 430, 300  # pixels; the bar and its words stand right of the plot


def draw(candidates, shown, box):
    """The text of an .svg file. ValueError when no plan runs."""
    running = [c for c in candidates if c.times]
    if not running:
        raise ValueError("no picture: not one plan runs")
    plot = _axes(running)
    front = front_of(running)
    for candidate in running:
        tpot, rate = _point(candidate)
        series = 0 if candidate in front else 5
        low, high = sorted(candidate.times["tpot_s"][::2])
        ends = [(plot.x(_within(v * 1e3, plot.x_range)), plot.y(rate)) for v in (low, high)]
        plot.line(ends, SERIES[series], "thin")
        plot.dot(plot.x(tpot), plot.y(rate), SERIES[series], 0 if candidate is not shown else 2, 5)
    for candidate in {id(c): c for c in [*front[:6], shown] if c.times}.values():
        tpot, rate = _point(candidate)
        words = candidate.name + (" (shown)" if candidate is shown else "")
        plot.text(plot.x(tpot) + 8, plot.y(rate) - 8, words, "fg", "start", 12)
    _bar(plot, shown, box)
    return plot.standalone(_words(shown, front, box))


def front_of(running):
    """The plans that none beats in both: time per token and tokens/s per GPU; fastest first."""
    front = []
    for candidate in sorted(running, key=lambda c: (_point(c)[0], -_point(c)[1])):
        if not front or _point(candidate)[1] > _point(front[-1])[1]:
            front.append(candidate)
    return front


def _point(candidate):
    """(milliseconds per token, tokens/s per GPU), typical."""
    rate = candidate.times["tokens_per_s"][1] / candidate.plan.num_gpus
    return candidate.times["tpot_s"][1] * 1e3, rate


def _axes(running):
    xs = [value * 1e3 for c in running for value in c.times["tpot_s"]]
    ys = [_point(c)[1] for c in running]
    x_range = (min(xs) / 1.2, max(xs) * 1.2)
    y_range = (min(ys) / 1.3, max(ys) * 1.5)
    return Plot(
        x_range,
        y_range,
        "milliseconds per token of one client (best to worst constants)",
        "tokens/s per GPU",
        _ticks(*x_range),
        _ticks(*y_range),
        log_x=True,
        log_y=True,
        width=WIDTH,
        height=HEIGHT,
        right=BAR,
    )


def _ticks(low, high):
    powers = ladder(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)), 10)
    values = [power * step for power in powers for step in (1, 2, 5)]
    return [(value, f"{value:g}") for value in values if low <= value <= high]


def _within(value, limits):
    return min(max(value, limits[0]), limits[1])


def _bar(plot, shown, box):
    memory = shown.memory
    parts = [("weights", memory["weights_bytes"], "c0")]
    parts += [
        (name, size, f"c{1 + n % 2}") for n, (name, size) in enumerate(memory["other"].items())
    ]
    parts.append(("KV cache", max(0.0, memory["kv_bytes"]), "c3"))
    used = sum(size for _, size, _ in parts)
    parts.append(("not the engine's", max(0.0, box.reported_bytes - used), "idle"))
    left, top, height = plot.right + 60, plot.top, plot.bottom - plot.top
    plot.text(left, 16, f"one GPU of {shown.name}", "fg", "start", 13, "bold")
    whole = max(used, box.reported_bytes)
    bottom, words = plot.bottom, plot.bottom + 4
    for name, size, colour in parts:
        if size <= 0:
            continue
        part = size / whole * height
        plot.rect(left, bottom - part, 56, part, colour, "edge")
        words = min(words - 15, bottom - part / 2 + 4)  # labels never touch
        plot.text(left + 66, words, f"{name} {size / GB:.1f} GB", "fg", "start", 12)
        bottom -= part
    limit = top + height * (1 - min(1.0, box.reported_bytes / whole))
    plot.line([(left - 6, limit), (left + 62, limit)], "fg", "dash")


def _words(shown, front, box):
    tpot, rate = _point(shown) if shown.times else (0, 0)
    m = shown.memory
    return (
        f"Plan {shown.name} on {box.gpu}: {tpot:.3g} ms per token, {rate:.3g} tokens/s per GPU; "
        f"weights {m['weights_bytes'] / GB:.1f} GB and cache {m['kv_bytes'] / GB:.1f} GB of "
        f"{box.reported_bytes / GB:.1f} GB. No plan beats in both: "
        + ", ".join(c.name for c in front)
    )
