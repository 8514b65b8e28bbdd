"""The two pictures of a profile: curves of every mode, and who waited for whom."""

import math

from labkit.svg import Drawing, Plot

COLOURS = {"no TP": "fg", "plain": "c0", "sequential": "c3", "overlap": "c2", "DTensor": "c1"}
LANES = (("GEMM", "GEMM", "c0"), ("wait", "waiting", "c1"))  # classes of labkit.svg


def curves(result):
    """Loss, gradient norm, step time and memory of every mode, as an .svg file."""
    modes = result["modes"]
    saved = {name: max(mode["saved_bytes"]) / 2**20 for name, mode in modes.items()}
    # the first step of a run is slow; its time is left out
    times = {name: [1e3 * s for s in mode["step_s"][1:]] for name, mode in modes.items()}
    panels = [
        plot("loss", {name: mode["loss"] for name, mode in modes.items()}),
        plot("gradient norm", {name: mode["gradient_norm"] for name, mode in modes.items()}),
        plot("step, ms", times),
        bars("kept for backward, MiB per rank", saved),
    ]
    d = Drawing(900, 680)
    where = f"{result['ranks']} ranks, {result['backend']}, link {result['link']}"
    d.text(20, 22, where, "fg", "start", 14, "bold")
    for number, panel in enumerate(panels):
        x, y = 10 + number % 2 * 440, 36 + number // 2 * 290
        d.parts.append(f'<g transform="translate({x} {y})">{"".join(panel.parts)}</g>')
    for number, name in enumerate(modes):
        x, y = 20 + number * 175, 632
        d.line([(x, y - 4), (x + 22, y - 4)], COLOURS[name])
        d.text(x + 28, y, name, "fg", "start", 12)
    medians = ", ".join(f"{n} {1e3 * m['median_step_s']:.0f} ms" for n, m in modes.items())
    alt = f"{where}. Losses and gradient norms of all modes coincide. Median steps: {medians}."
    return d.standalone(alt)


def plot(title, series):
    """One line per mode over its steps."""
    values = [value for line in series.values() for value in line]
    high, count = 1.05 * max(values), max(map(len, series.values()))
    low = min(0.0, min(values))
    apart = round_step((high - low) / 5)
    ticks = [tick * apart for tick in range(math.ceil(low / apart), math.floor(high / apart) + 1)]
    axes = Plot(
        *((1, max(count, 2)), (low, high), "step", title),
        *([(1, "1"), (count, str(count))], [(tick, f"{tick:g}") for tick in ticks]),
        width=430,
        height=280,
    )
    for name, line in series.items():
        points = [(axes.x(1 + i), axes.y(value)) for i, value in enumerate(line)]
        axes.line(points, COLOURS[name])
    return axes


def bars(title, values):
    d, high = Drawing(430, 280), max(values.values()) or 1
    d.text(8, 16, title, "muted", "start")
    step = 400 / len(values)
    for number, (name, value) in enumerate(values.items()):
        tall, x = 190 * value / high, 14 + number * step
        d.rect(x + 3, 232 - tall, step - 6, tall, COLOURS[name])
        d.text(x + step / 2, 226 - tall, f"{value:.1f}", "fg", "middle", 11)
    return d


def round_step(least):
    """The smallest of 1, 2, 5, 10, 20, ... (and 0.5, 0.2, ...) that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def timeline(runs, width=680, title=""):
    """(drawing, what it says): a lane per activity and rank, one time axis for all modes.

    runs: {mode: per rank [[lane, name, start, end], ...]}, times in seconds.
    """
    begins = {m: min(span[2] for spans in ranks for span in spans) for m, ranks in runs.items()}
    took = {
        m: max(span[3] for spans in ranks for span in spans) - begins[m]
        for m, ranks in runs.items()
    }
    left, lane, num_ranks = 112, 17, len(next(iter(runs.values())))
    scale = (width - left - 20) / max(took.values())
    per_mode, top = 28 + num_ranks * (len(LANES) * lane + 8), 30 if title else 8
    d = Drawing(width, top + 16 + len(runs) * per_mode)
    d.text(20, 20, title, "fg", "start", 14, "bold")
    said = []
    for k, (mode, ranks) in enumerate(runs.items()):
        y = top + k * per_mode
        d.text(left, y + 14, f"{mode}: {1e3 * took[mode]:.0f} ms", "fg", "start", 14, "bold")
        waits = [sum(end - start for kind, _, start, end in s if kind == "wait") for s in ranks]
        for rank, spans in enumerate(ranks):
            for row, (kind, label, fill) in enumerate(LANES):
                at = y + 22 + rank * (len(LANES) * lane + 8) + row * lane
                d.text(left - 8, at + 12, f"rank {rank} {label}", "muted", "end", 13)
                d.rect(left, at, took[mode] * scale, lane - 3, "idle")
                for what, _, start, end in spans:
                    if what == kind and (end - start) * scale >= 0.3:
                        x = left + (start - begins[mode]) * scale
                        d.rect(x, at, (end - start) * scale, lane - 3, fill)
        said.append(f"{mode}: {1e3 * took[mode]:.0f} ms, blocked {1e3 * max(waits):.0f} ms of it")
    d.text(left, d.height - 8, "time, one scale for all", "muted", "start", 13)
    return d, "; ".join(said)
