"""One GPU's memory as a stacked bar, and the latency-throughput front of all plans, in one SVG."""

import math
from dataclasses import replace
from pathlib import Path

from labkit.svg import Plot, ladder
from planner import hardware, timing

GB = 1e9
WIDTH, HEIGHT, BAR = 420, 400, 330  # pixels; the bar and its words stand below the plot
CLIENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # along a plan's line
NAMED = 5  # plans whose lines are drawn strong and named: those that are best somewhere


def save(path, model, box, load, candidates, shown):
    """Write the picture. ValueError when no plan runs or the path cannot be written."""
    running = [c for c in candidates if c.times]
    if not running:
        raise ValueError("--svg: no picture, since not one plan runs")
    lines = {c.name: line_of(model, box, load, c.plan) for c in running}
    try:
        Path(path).write_text(draw(lines, shown, box, load), encoding="utf-8")
    except OSError as error:
        raise ValueError(f"--svg {path}: {error.strerror}") from None


def line_of(model, box, load, plan):
    """[(clients, milliseconds per token, tokens/s per GPU)] of a plan as more clients come."""
    fixed, points = box.at(hardware.TYPICAL), []
    for clients in sorted({*CLIENTS, load.concurrency}):
        served = timing.served(model, plan, fixed, replace(load, concurrency=clients))
        rate = served["tokens_per_s"] / plan.num_gpus
        if points and rate <= points[-1][2]:
            break  # full: whoever comes now waits
        points.append((clients, served["tpot_s"] * 1e3, rate))
    return points


def front_of(lines):
    """Names of plans with a point that no other plan beats in both, in the order of latency."""
    points = sorted((ms, -rate, name) for name, line in lines.items() for _, ms, rate in line)
    best, names = 0.0, []
    for _, rate, name in points:
        if -rate > best:
            best = -rate
            names.append(name)
    return list(dict.fromkeys(names))


def draw(lines, shown, box, load):
    """The text of an .svg file: lines of `line_of` by plan, and the bar of the shown Candidate."""
    front = front_of(lines)[:NAMED]
    named = list(dict.fromkeys([shown.name, *front]) if shown.name in lines else front)[:6]
    points = [point for line in lines.values() for point in line]
    plot = _axes([ms for _, ms, _ in points], [rate for _, _, rate in points])
    for name in [*(n for n in lines if n not in named), *named]:
        xs, ys = [p[1] for p in lines[name]], [p[2] for p in lines[name]]
        if name not in named:
            plot.line([(plot.x(x), plot.y(y)) for x, y in zip(xs, ys, strict=True)], "idle")
            continue
        series = named.index(name)
        plot.curve(xs, ys, series)
        for clients, ms, rate in lines[name]:
            if clients == load.concurrency:
                plot.points([ms], [rate], series)
        below = plot.bottom - 14 - 18 * (len(named) - 1 - series)
        plot.text(plot.right - 8, below, name, f"c{series}", "end", 13, "bold")
    _bar(plot, shown, box)
    return plot.standalone(_words(shown, front, box))


def _axes(xs, ys):
    x_range, y_range = (min(xs) / 1.2, max(xs) * 1.2), (min(ys) / 1.3, max(ys) * 1.5)
    words = "ms per token of one client; along a line clients come"
    ticks = _ticks(*x_range), _ticks(*y_range)
    return Plot(
        x_range, y_range, words, "tokens/s per GPU", *ticks,
        log_x=True, log_y=True, width=WIDTH, height=HEIGHT,
    )  # fmt: skip


def _ticks(low, high):
    powers = ladder(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)), 10)
    values = [power * step for power in powers for step in (1, 2, 5)]
    return [(value, f"{value:g}") for value in values if low <= value <= high]


def parts_of(shown, box):
    """[(name, bytes, colour)] of one GPU, from the bottom up; they add up to what it reports."""
    memory = shown.memory
    parts = [("weights", memory["weights_bytes"], "c0")]
    parts += [(name, size, f"c{1 + n % 2}") for n, (name, size) in
              enumerate(memory["other"].items())]  # fmt: skip
    parts.append(("KV cache", max(0.0, memory["kv_bytes"]), "c3"))
    rest = box.reported_bytes - sum(size for _, size, _ in parts)
    return [*parts, ("not the engine's", max(0.0, rest), "idle")]


def _bar(plot, shown, box):
    parts, left, height = parts_of(shown, box), 20, BAR - 44
    foot, plot.height = HEIGHT + BAR - 10, HEIGHT + BAR
    whole = max(box.reported_bytes, sum(size for _, size, _ in parts))
    plot.text(left - 12, HEIGHT + 16, f"one GPU of {shown.name}", "fg", "start", 13, "bold")
    bottom, words = foot, foot + 16
    for name, size, colour in parts:
        part = size / whole * height
        if size > 0:
            plot.rect(left, bottom - part, 56, part, colour, "edge")
            words = min(words - 16, bottom - part / 2 + 4)  # labels never touch
            plot.text(left + 66, words, f"{name} {size / GB:.1f} GB", "fg", "start")
        bottom -= part
    limit = foot - box.reported_bytes / whole * height
    plot.line([(left - 6, limit), (left + 62, limit)], "fg", "dash")


def _words(shown, front, box):
    memory = shown.memory
    return (
        f"One GPU of {shown.name} on {box.gpu}: weights {memory['weights_bytes'] / GB:.1f} GB and "
        f"cache {memory['kv_bytes'] / GB:.1f} GB of {box.reported_bytes / GB:.1f} GB. Best at some "
        f"latency: {', '.join(front)}."
    )
