"""Measured and predicted all-reduce times over payload, both axes logarithmic, as an SVG."""

import math

from labkit.svg import SERIES, Plot, ladder
from labkit.table import bytes_text, seconds_text

KEY = (
    "filled: measured, unseen by the fit; hollow: seen",
    "dashes: one c, a and busbw; line: with protocols",
)


def picture(lab, title, table, constants, protocols):
    """The text of an .svg file: table, {ranks: {bytes: seconds}}, beside the model's two curves.

    constants: {ranks: (c, a, busbw)}, fitted to each rank count's smallest and largest payload,
    which are drawn hollow. The crossover of the most ranks is marked where it lies in the picture:
    latency to its left, bandwidth to its right.
    """

    def straight(ranks, size):
        return lab.ring_all_reduce_s(ranks, size, *constants[ranks])

    def predicted(ranks, size):
        return lab.predict_all_reduce_s(ranks, size, *constants[ranks], protocols)

    plot, payloads = _axes(table, (predicted, straight))
    plot.text(8, 22, title, "fg", "start", 16, "bold")
    for line, words in enumerate(KEY):
        plot.text(8, 44 + 18 * line, words, "muted", "start")
    _crossover(plot, payloads, max(table), lab.crossover_bytes(max(table), *constants[max(table)]))
    for number, (ranks, times) in enumerate(table.items()):
        plot.curve(payloads, [straight(ranks, size) for size in payloads], number, "dash thin")
        plot.curve(payloads, [predicted(ranks, size) for size in payloads], number)
        for size, seconds in sorted(times.items()):
            x, y = plot.x(size), plot.y(seconds)
            plot.dot(x, y, SERIES[number], number)
            if size in (min(times), max(times)):
                plot.dot(x, y, "bg", number, 2.4)
    labels = [f"{ranks} ranks" for ranks in table]
    ends = sorted((plot.y(predicted(ranks, payloads[-1])), i) for i, ranks in enumerate(table))
    previous = -math.inf
    for y, number in ends:  # labels stand at the ends of the curves, pushed apart when these meet
        previous = max(y + 4, previous + 17)
        plot.text(plot.right + 10, previous, labels[number], SERIES[number], "start")
    about = f"time over payload for {' and '.join(labels)}, measured and predicted"
    return plot.standalone(f"{title}: {about}.")


def _crossover(plot, payloads, ranks, size):
    if not payloads[0] < size < payloads[-1]:
        return
    x = plot.x(size)
    plot.line([(x, plot.top), (x, plot.bottom)], "muted", "dash thin")
    plot.text(x - 8, plot.bottom - 8, "latency-bound", "muted", "end")
    plot.text(x + 8, plot.bottom - 24, "bandwidth-bound", "muted", "start")
    plot.text(x + 8, plot.bottom - 8, f"({ranks} ranks)", "muted", "start")


def _axes(table, curves):
    """The empty plot, and the payloads at which curves, (ranks, bytes) -> seconds, are drawn."""
    sizes = [size for times in table.values() for size in times]
    low, high = min(sizes), max(sizes)
    times = [seconds for times in table.values() for seconds in times.values()]
    times += [curve(ranks, size) for curve in curves for ranks in table for size in (low, high)]
    powers = range(math.floor(math.log10(min(times))), math.ceil(math.log10(max(times))) + 1)
    step = math.ceil(math.log2(high / low) / 5)  # five or six labels have room
    x_ticks = [
        (2**power, bytes_text(2**power))
        for power in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1, step)
    ]
    y_ticks = [(10.0**power, seconds_text(10.0**power).replace("us", "µs")) for power in powers]
    limits = (low, high), (10.0 ** powers[0], 10.0 ** powers[-1])
    plot = Plot(
        *limits, "payload", "", x_ticks, y_ticks, log_x=True, log_y=True, width=420, height=440,
        right=68, top=80,
    )  # fmt: skip
    return plot, ladder(low, high, 2 ** (1 / 8))
