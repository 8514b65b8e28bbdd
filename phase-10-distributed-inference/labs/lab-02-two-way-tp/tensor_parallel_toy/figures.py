"""The two pictures of a profile, as plain SVG: curves of every mode, and who waited for whom."""

import math

from . import trace

INK, GRID, PAPER = "#1f2328", "#d0d7de", "#ffffff"
COLOURS = {
    "no TP": "#6e7781",
    "no TP, all cores": "#afb8c1",
    "plain": "#0969da",
    "sequential": "#8250df",
    "overlap": "#1a7f37",
    "DTensor": "#bc4c00",
    "DTensor, patient": "#d4a72c",
}
LANES = {"GEMM": "#1a7f37", "wait": "#cf222e", "in flight": "#0969da"}
TITLES = {
    "plain": "plain: collective, then GEMM",
    "sequential": "sequential: point-to-point, then GEMM",
    "overlap": "overlap: the next chunk is in flight while this one is in the GEMM",
}


def svg(width, height, parts):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def text(x, y, words, anchor="start", size=12, colour=INK, weight="normal"):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{colour}" font-weight="{weight}">{words}</text>'
    )


def box(x, y, width, height, colour, title):
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.3):.2f}" height="{height}" '
        f'fill="{colour}"><title>{title}</title></rect>'
    )


def line(points, colour, width=1.8, dash=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"'
        + (f' stroke-dasharray="{dash}"' if dash else "")
        + "/>"
    )


def curves(result):
    """Loss, gradient norm, step time and memory, one curve per mode."""
    modes = {name: mode for name, mode in result["modes"].items() if name in COLOURS}
    mib = 2**20
    panels = [
        ("loss", "", {n: m["loss"] for n, m in modes.items()}),
        ("gradient norm", "", {n: m["gradient_norm"] for n, m in modes.items()}),
        ("step time", "ms", {n: [1e3 * s for s in m["step_s"]] for n, m in modes.items()}),
    ]
    parts = [
        text(
            20,
            24,
            f"{result['ranks']} ranks, {result['backend']}, link {result['link']}",
            size=14,
            weight="bold",
        )
    ]
    for number, (title, unit, series) in enumerate(panels):
        parts += panel(20 + number % 2 * 430, 40 + number // 2 * 250, title, unit, series)
    parts += bars(
        450,
        290,
        "kept for backward, per rank",
        "MiB",
        {n: max(m["saved_bytes"]) / mib for n, m in modes.items()},
    )
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = 24 + number * 120
        parts += [box(x, 552, 12, 12, colour, name), text(x + 18, 562, name)]
    return svg(880, 580, parts)


def panel(x, y, title, unit, series, width=400, height=220):
    """One line plot; curves that coincide are drawn thinner and dashed on top of each other."""
    left, top, right, bottom = x + 55, y + 24, x + width - 10, y + height - 22
    # the first step of a run is slow; its time is drawn at the edge of the panel
    values = [v for curve in series.values() for v in (curve[1:] if unit else curve) or curve]
    low, high = min(0.0, min(values)), max(values) * 1.05 or 1.0
    count = max(len(curve) for curve in series.values())
    parts = [text(left, y + 14, title + (f" [{unit}]" if unit else ""), weight="bold")]
    apart = round_step((high - low) / 5)
    for tick in range(math.ceil(low / apart), math.floor(high / apart) + 1):
        at = bottom - (bottom - top) * (tick * apart - low) / (high - low)
        parts += [
            line([(left, at), (right, at)], GRID, 0.8),
            text(left - 6, at + 4, f"{tick * apart:g}", "end", 11),
        ]
    parts += [
        text(left, bottom + 16, "1", "middle", 11),
        text(right, bottom + 16, f"step {count}", "end", 11),
    ]
    for number, (name, curve) in enumerate(series.items()):
        points = [
            (
                left + (right - left) * i / max(count - 1, 1),
                bottom - (bottom - top) * (min(v, high) - low) / (high - low),
            )
            for i, v in enumerate(curve)
        ]
        dash = "" if number == 0 else f"{4 + 2 * number} {3 + 2 * number}"
        parts.append(line(points, COLOURS[name], 2.4 - 0.25 * number, dash if not unit else ""))
    return parts


def round_step(least):
    """The smallest of 1, 2, 5, 10, 20, ... (and 0.5, 0.2, ...) that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def bars(x, y, title, unit, values, width=400, height=220):
    left, top, bottom = x + 55, y + 24, y + height - 22
    high = max(values.values()) or 1
    parts = [
        text(left, y + 14, f"{title} [{unit}]", weight="bold"),
        line([(left, bottom), (x + width - 10, bottom)], GRID, 0.8),
    ]
    step = (width - 75) / len(values)
    for number, (name, value) in enumerate(values.items()):
        tall = (bottom - top - 14) * value / high
        parts += [
            box(
                left + number * step + 6,
                bottom - tall,
                step - 12,
                round(tall, 1),
                COLOURS[name],
                f"{name}: {value:.1f} {unit}",
            ),
            text(left + (number + 0.5) * step, bottom - tall - 4, f"{value:.1f}", "middle", 11),
        ]
    return parts


def timeline(result, runs):
    """One MLP forward and backward per mode: lanes per rank, one time axis for all."""
    starts = {
        name: min(span[2] for record in ranks for span in record["spans"])
        for name, ranks in runs.items()
    }
    length = max(
        span[3] - starts[name]
        for name, ranks in runs.items()
        for record in ranks
        for span in record["spans"]
    )
    left, width, lane, y = 110, 820, 15, 66
    scale = width / length
    parts = [
        text(
            20,
            24,
            "One MLP, forward and backward, as recorded: "
            f"{result['ranks']} ranks, {result['backend']}, link {result['link']}",
            size=14,
            weight="bold",
        )
    ]
    for number, (name, colour) in enumerate(LANES.items()):
        parts += [
            box(left + number * 210, 36, 12, 12, colour, name),
            text(
                left + number * 210 + 18,
                46,
                {"GEMM": "GEMM", "wait": "blocked (exposed)", "in flight": "message in flight"}[
                    name
                ],
            ),
        ]
    for name, ranks in runs.items():
        took = 1e3 * (max(span[3] for record in ranks for span in record["spans"]) - starts[name])
        parts.append(text(20, y + 10, f"{TITLES[name]}  ({took:.1f} ms)", weight="bold"))
        y += 18
        wires = trace.in_flight(ranks)
        for rank, record in enumerate(ranks):
            flights = [("in flight", *flight) for flight in wires[rank]]
            for title in LANES:
                parts.append(text(left - 8, y + lane - 4, f"rank {rank} {title}", "end", 10))
                spans = [s for s in [*record["spans"], *flights] if s[0] == title]
                for _, what, start, end in spans:
                    if title == "in flight" and end <= start:
                        continue
                    at = left + (start - starts[name]) * scale
                    parts.append(
                        box(
                            at,
                            y + 1,
                            (end - start) * scale,
                            lane - 3,
                            LANES[title],
                            f"{what}: {1e3 * (end - start):.2f} ms",
                        )
                    )
                y += lane
            y += 4
        y += 12
    tick = round_step(length * 1e3 / 12)
    for number in range(int(length * 1e3 / tick) + 1):
        at = left + number * tick / 1e3 * scale
        parts += [
            line([(at, 58), (at, y)], GRID, 0.6),
            text(at, y + 14, f"{number * tick:g} ms", "middle", 10),
        ]
    return svg(left + width + 40, y + 26, parts)
