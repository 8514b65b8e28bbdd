"""Measured and predicted all-reduce times over payload, both axes logarithmic, as an SVG."""

import math

from labkit.svg import SERIES, Plot, ladder
from labkit.table import bytes_text, seconds_text


def picture(lab, title, table, constants, protocols):
    """The text of an .svg file: table, {ranks: {bytes: seconds}}, beside the model's two curves.

    constants: {ranks: (c, a, busbw)}, fitted to each rank count's smallest and largest payload.
    """

    def series(ranks, times):
        ring = constants[ranks]
        return {
            "label": f"{ranks} ranks",
            "measured": sorted(times.items()),
            "given": (min(times), max(times)),
            "predict": lambda size: lab.predict_all_reduce_s(ranks, size, *ring, protocols),
            "straight": lambda size: lab.ring_all_reduce_s(ranks, size, *ring),
        }

    most = max(table)
    crossover = lab.crossover_bytes(most, *constants[most])
    return loglog_svg(title, [series(*item) for item in table.items()], crossover)


def loglog_svg(title, series, crossover_bytes=None):
    """Return the text of an .svg file.

    series: dicts with `label`, `measured` [(bytes, seconds), ...] ascending, `given` (the payloads
    the fit has seen, drawn hollow), `predict` and `straight`, functions from bytes to seconds.
    crossover_bytes, if given, is the last series' and marked: latency to its left, bandwidth to its
    right.
    """
    plot, payloads = _axes(series)
    plot.text(plot.left, 22, title, "fg", "start", 16, "bold")
    key = (
        "filled: measured, not seen by the fit; hollow: given to it; "
        "dashes: one c, a and busbw; line: with protocols"
    )
    plot.text(plot.left, 42, key, "muted", "start", 12)
    if crossover_bytes and payloads[0] < crossover_bytes < payloads[-1]:
        x = plot.x(crossover_bytes)
        plot.line([(x, plot.top), (x, plot.bottom)], "muted", "dash thin")
        right = f"bandwidth-bound ({series[-1]['label']})"
        plot.text(x - 8, plot.bottom - 8, "latency-bound", "muted", "end", 12)
        plot.text(x + 8, plot.bottom - 8, right, "muted", "start", 12)
    for number, one in enumerate(series):
        plot.curve(payloads, [one["straight"](size) for size in payloads], number, "dash thin")
        plot.curve(payloads, [one["predict"](size) for size in payloads], number)
        for size, seconds in one["measured"]:
            x, y = plot.x(size), plot.y(seconds)
            plot.dot(x, y, SERIES[number], number)
            if size in one["given"]:
                plot.dot(x, y, "bg", number, 2.4)
    ends = sorted((plot.y(one["predict"](payloads[-1])), i) for i, one in enumerate(series))
    previous = -math.inf
    for y, number in ends:  # labels stand at the ends of the curves, pushed apart when these meet
        previous = max(y + 4, previous + 17)
        plot.text(plot.right + 10, previous, series[number]["label"], SERIES[number], "start")
    labels = " and ".join(one["label"] for one in series)
    return plot.standalone(f"{title}: time over payload for {labels}, measured and predicted.")


def _axes(series):
    """The empty plot, and the payloads at which curves are drawn."""
    sizes = [size for one in series for size, _ in one["measured"]]
    low, high = min(sizes), max(sizes)
    times = [seconds for one in series for _, seconds in one["measured"]]
    times += [
        one[curve](size)
        for one in series
        for curve in ("predict", "straight")
        for size in (low, high)
    ]
    powers = range(math.floor(math.log10(min(times))), math.ceil(math.log10(max(times))) + 1)
    step = 2 if high / low <= 2**16 else 3
    x_ticks = [
        (2**power, bytes_text(2**power))
        for power in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1, step)
    ]
    y_ticks = [(10.0**power, seconds_text(10.0**power)) for power in powers]
    limits = (low, high), (10.0 ** powers[0], 10.0 ** powers[-1])
    plot = Plot(
        *limits, "payload", "", x_ticks, y_ticks, log_x=True, log_y=True, width=760, height=470,
        right=100, top=60,
    )  # fmt: skip
    return plot, ladder(low, high, 2 ** (1 / 8))
