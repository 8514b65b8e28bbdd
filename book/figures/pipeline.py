"""Lab 04's schedules as pictures."""

from labbook.labs import solution

from labkit.svg import SERIES, Drawing, Plot


def _cells(d, rows, x0, y0, size, label):
    for y, row in enumerate(rows):
        d.text(x0 - 8, y0 + y * size + size * 0.68, f"stage {y}", "muted", "end", 12)
        for x, cell in enumerate(row):
            fill, text = label(cell)
            d.rect(x0 + x * size, y0 + y * size, size, size, fill, "edge")
            if text:
                d.text(x0 + (x + 0.5) * size, y0 + (y + 0.66) * size, text, "bg", size=size * 0.46)


def grid(p=4, m=8):
    """The forward-only grid of lab 04, cell by cell."""
    lab04 = solution("lab-04")
    rows = lab04.schedule_grid(p, m)
    share = lab04.grid_bubble(rows)
    size = min(34, 560 / len(rows[0]))
    d = Drawing(80 + len(rows[0]) * size, p * size + 44)
    _cells(d, rows, 66, 8, size, lambda c: ("idle", "") if c is None else ("c0", str(c)))
    d.text(66, p * size + 30, "time, one microbatch per tick", "muted", "start", 12)
    d.line([(240, p * size + 26), (300, p * size + 26)], "muted", "arrow thin")
    idle = sum(cell is None for row in rows for cell in row)
    alt = (
        f"A grid of {p} stages by {len(rows[0])} ticks. Microbatch i enters stage s at tick i + "
        f"s, so the "
        f"busy cells form a slanted band; {idle} of {p * len(rows[0])} cells at its two corners "
        f"are idle."
    )
    caption = (
        f"{p} stages, {m} microbatches: {idle} idle cells of {p * len(rows[0])}, "
        f"a bubble of {share}."
    )
    return d.figure(alt, caption, min_width=min(480, int(d.width)))


def bubble_curves():
    """Bubble against microbatches for several depths, with the 10 % line."""
    lab04 = solution("lab-04")
    ms = [1, 2, 4, 8, 16, 32, 64, 128]
    ticks = [(v / 100, f"{v} %") for v in (0, 10, 25, 50, 75, 100)]
    plot = Plot(
        (1, 128),
        (0, 1),
        "microbatches m",
        "bubble",
        [(m, str(m)) for m in ms],
        ticks,
        log_x=True,
        right=70,
    )
    plot.line([(plot.left, plot.y(0.1)), (plot.right, plot.y(0.1))], "muted", "dash thin")
    fine = [round(2 ** (k / 8)) for k in range(57)]
    for series, p in enumerate((2, 4, 8, 16)):
        xs = sorted(set(fine))
        plot.curve(xs, [float(lab04.bubble_fraction(p, m)) for m in xs], series)
        need = lab04.min_microbatches(p, 0.1)
        if need <= 128:
            plot.points([need], [0.1], series)
        plot.label(max(1.1, (p - 1) * 1.12), 0.52, f"p = {p}", series)
    needs = ", ".join(f"{lab04.min_microbatches(p, 0.1)} for p = {p}" for p in (2, 4, 8, 16))
    alt = (
        "Bubble against the number of microbatches for 2, 4, 8 and 16 stages. Every curve starts "
        "at "
        f"(p-1)/p and falls towards zero. Ten percent is reached at m = {needs}."
    )
    return plot.figure(alt, f"Microbatches for a bubble of at most 10 %: {needs}.", min_width=520)


def latency_throughput():
    """What depth buys: throughput; what it does to one request's latency: nothing good."""
    lab04 = solution("lab-04")
    ps = [1, 2, 4, 8, 16]
    model_s, hop_s, m = 0.080, 0.001, 32
    base_l = lab04.latency_s(1, model_s, hop_s)
    base_t = lab04.throughput_per_s(1, m, model_s, hop_s)
    latency = [lab04.latency_s(p, model_s, hop_s) / base_l for p in ps]
    through = [lab04.throughput_per_s(p, m, model_s, hop_s) / base_t for p in ps]
    plot = Plot(
        (1, 16),
        (0.7, 16),
        "stages p",
        "relative to one device",
        [(p, str(p)) for p in ps],
        [(v, f"{v} ×") for v in (1, 2, 4, 8, 16)],
        log_x=True,
        log_y=True,
        right=120,
    )
    for series, (name, ys) in enumerate((("throughput", through), ("latency", latency))):
        plot.curve(ps, ys, series)
        plot.points(ps, ys, series)
        plot.text(plot.right + 8, plot.y(ys[-1]) + 4, name, SERIES[series], "start", 13, "bold")
    alt = (
        f"With {m} microbatches, going from 1 to 16 stages multiplies throughput by "
        f"{through[-1]:.1f} and "
        f"the latency of one microbatch by {latency[-1]:.2f}: it never falls below that of one "
        f"device."
    )
    return plot.figure(
        alt, "A model of 80 ms on one device, 1 ms per hop, 32 microbatches.", min_width=520
    )
