"""Draw measured and predicted all-reduce times as a log-log SVG, by hand: no plotting library."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 470
LEFT, RIGHT, TOP, BOTTOM = 76, 112, 62, 58
# Colours that stay apart for colour-blind readers; markers differ too.
COLOURS = (("#0060a8", "#5ab4ff"), ("#c04a00", "#ff9a5c"), ("#007a5a", "#4fd6ae"))
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 }
.title { font-size: 16px; font-weight: 600 }
.small { font-size: 12px; fill: #555 }
.paper { fill: #fff } .grid { stroke: #e2e2e2 } .axis { stroke: #777 }
.straight { fill: none; stroke: #777; stroke-width: 1.6; stroke-dasharray: 2 4 }
.mark { stroke: #777; stroke-dasharray: 6 4 }
.given { fill: #fff } .curve { fill: none; stroke-width: 2 }
"""
DARK = """
text { fill: #e6e6e6 } .small { fill: #b0b0b0 }
.paper { fill: #16181c } .grid { stroke: #30343b } .axis { stroke: #8a8a8a }
.straight { stroke: #808080 } .given { fill: #16181c }
"""


def bytes_text(size):
    """`8 KiB`; sizes are powers of two here."""
    for unit, name in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} B"


def seconds_text(seconds):
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= 0.999 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 1e-9:.0f} ns"


def loglog_svg(title, series, crossover_bytes=None):
    """Return the SVG text.

    series: dicts with `label`, `measured` [(bytes, seconds), ...] ascending, `given` (the payloads
    the fit has seen, drawn hollow), `predict` and `straight`, functions from bytes to seconds.
    crossover_bytes, if given, is the last series' and marked: latency to its left, bandwidth to its
    right.
    """
    sizes = [size for one in series for size, _ in one["measured"]]
    low_x, high_x = math.log2(min(sizes)), math.log2(max(sizes))
    grid = [2 ** (low_x + (high_x - low_x) * step / 240) for step in range(241)]
    times = [t for one in series for _, t in one["measured"]]
    times += [one["predict"](size) for one in series for size in (grid[0], grid[-1])]
    low_y, high_y = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(size):
        return LEFT + (math.log2(size) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def y(seconds):
        part = (math.log10(seconds) - low_y) / (high_y - low_y)
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    def path(function, css, style=""):
        points = [(x(size), y(function(size))) for size in grid]
        points = [(px, min(py, HEIGHT - BOTTOM)) for px, py in points]
        text = "M" + " L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        return f'<path class="{css}" d="{text}"{style}/>'

    colours = "".join(
        f".c{i} {{ stroke: {light} }} .f{i} {{ fill: {light} }}\n"
        for i, (light, _) in enumerate(COLOURS)
    )
    dark = "".join(
        f".c{i} {{ stroke: {shade} }} .f{i} {{ fill: {shade} }}\n"
        for i, (_, shade) in enumerate(COLOURS)
    )
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}{colours}@media (prefers-color-scheme: dark) {{{DARK}{dark}}}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="24">{escape(title)}</text>',
        f'<text class="small" x="{LEFT}" y="44">filled: measured, not seen by the fit; '
        "hollow: given to the fit; line: predicted; dots: one straight line</text>",
    ]
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    step = 2 if high_x - low_x <= 16 else 3
    for power in range(math.ceil(low_x), math.floor(high_x) + 1, step):
        px = x(2**power)
        out.append(f'<line class="grid" x1="{px:.1f}" y1="{TOP}" x2="{px:.1f}" y2="{bottom}"/>')
        label = bytes_text(2**power)
        out.append(f'<text x="{px:.1f}" y="{bottom + 20}" text-anchor="middle">{label}</text>')
    for power in range(low_y, high_y + 1):
        py = y(10**power)
        out.append(f'<line class="grid" x1="{LEFT}" y1="{py:.1f}" x2="{right}" y2="{py:.1f}"/>')
        label = seconds_text(10**power)
        out.append(f'<text x="{LEFT - 8}" y="{py + 4:.1f}" text-anchor="end">{label}</text>')
    out.append(f'<path class="axis" fill="none" d="M{LEFT} {TOP} V{bottom} H{right}"/>')
    middle = (LEFT + right) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">payload</text>')
    if crossover_bytes and min(sizes) < crossover_bytes < max(sizes):
        px = x(crossover_bytes)
        out.append(f'<line class="mark" x1="{px:.1f}" y1="{TOP}" x2="{px:.1f}" y2="{bottom}"/>')
        right_text = f"bandwidth-bound ({escape(series[-1]['label'])})"
        for anchor, shift, text in (("end", -8, "latency-bound"), ("start", 8, right_text)):
            out.append(
                f'<text class="small" x="{px + shift:.1f}" y="{bottom - 8}" '
                f'text-anchor="{anchor}">{text}</text>'
            )
    for i, one in enumerate(series):
        out.append(path(one["straight"], "straight"))
        out.append(path(one["predict"], f"curve c{i}"))
        for size, seconds in one["measured"]:
            px, py = x(size), y(seconds)
            css = f"c{i} " + ("given" if size in one["given"] else f"f{i}")
            shape = (
                f'<circle class="{css}" stroke-width="2" cx="{px:.1f}" cy="{py:.1f}" r="4.5"/>',
                f'<rect class="{css}" stroke-width="2" x="{px - 4:.1f}" y="{py - 4:.1f}" '
                'width="8" height="8"/>',
                f'<path class="{css}" stroke-width="2" d="M{px:.1f} {py - 5:.1f} l5 9 h-10 z"/>',
            )[i % 3]
            out.append(shape)
    # Labels stand at the right end of the curves, pushed apart when these meet.
    ends = sorted((y(one["predict"](grid[-1])), i) for i, one in enumerate(series))
    previous = -math.inf
    for py, i in ends:
        previous = max(py + 4, previous + 17)
        label = escape(series[i]["label"])
        out.append(f'<text class="f{i}" x="{right + 12}" y="{previous:.1f}">{label}</text>')
    return "\n".join([*out, "</svg>", ""])
