"""Small SVG drawings in the reader's theme: colours are CSS classes, never literals.

Classes: c0..c5 (series), fg, muted, idle, bg; `box` outlines. Text stays text. Sizes are pixels of
the viewBox. `figure()` gives HTML for the book, whose theme has the colours; `standalone()` gives
an .svg file that brings its own, light and dark.
"""

import math
from collections.abc import Sequence
from html import escape

SERIES = ("c0", "c1", "c2", "c3", "c4", "c5")


class Drawing:
    """Collects SVG elements; `figure()` wraps them with their text alternative."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.parts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str = "bg",
        extra: str = "",
        rx: float = 0,
    ) -> None:
        rounded = f' rx="{rx:g}"' if rx else ""
        size = f'x="{x:.5g}" y="{y:.5g}" width="{w:.5g}" height="{h:.5g}"{rounded}'
        self.parts.append(f'<rect class="{_classes(fill, extra)}" {size}/>')

    def text(
        self,
        x: float,
        y: float,
        text: str,
        fill: str = "fg",
        anchor: str = "middle",
        size: float = 13,
        extra: str = "",
    ) -> None:
        self.parts.append(
            f'<text class="{_classes("t-" + fill, extra)}" x="{x:.5g}" y="{y:.5g}" '
            f'text-anchor="{anchor}" font-size="{size:g}">{escape(text)}</text>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], stroke: str = "fg", extra: str = ""
    ) -> None:
        """A polyline; extra: `dash`, `arrow` (a head at its end), `thin`, `thick`."""
        if "arrow" in extra.split():
            self.parts.append(_arrow_head(points[-2], points[-1], stroke))
        path = " ".join(f"{x:.5g},{y:.5g}" for x, y in points)
        self.parts.append(f'<polyline class="{_classes("l-" + stroke, extra)}" points="{path}"/>')

    def dot(self, x: float, y: float, fill: str, shape: int = 0, r: float = 4.5) -> None:
        """A data point; the shape differs by series so that colour is not the only sign."""
        if shape % 3 == 0:
            self.parts.append(f'<circle class="{fill} edge" cx="{x:.5g}" cy="{y:.5g}" r="{r:g}"/>')
        elif shape % 3 == 1:
            self.rect(x - r * 0.9, y - r * 0.9, 1.8 * r, 1.8 * r, fill, "edge")
        else:
            d = f"M{x:.5g} {y - 1.2 * r:.5g}l{1.2 * r:.4g} {2.2 * r:.4g}h{-2.4 * r:.4g}z"
            self.parts.append(f'<path class="{fill} edge" d="{d}"/>')

    def figure(self, alt: str, caption: str = "") -> str:
        """The drawing as one line of HTML. `alt` says what a reader should take from it."""
        below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        return f'<figure class="lab-figure">{self.inline(alt)}{below}</figure>'

    def inline(self, alt: str, more: str = "") -> str:
        """The <svg> element alone, with `more` attributes."""
        return f"<svg {self._attributes(alt)}{more}>{''.join(self.parts)}</svg>"

    def _attributes(self, alt: str) -> str:
        if not alt.strip():
            raise ValueError("a figure needs a text alternative")
        label = escape(" ".join(alt.split()), quote=True)  # it may be written over several lines
        size = f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}"'
        return f'role="img" aria-label="{label}" {size}'

    def standalone(self, alt: str) -> str:
        """The text of an .svg file. `alt` says what a reader should take from it."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {self._attributes(alt)}>\n'
            f"<style>{_style()}</style>\n"
            f'<rect class="bg" width="{self.width:g}" height="{self.height:g}"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


# Each at least 4.5:1 on its background, as in book/theme/lab.css.
LIGHT = {
    "fg": "#1f2328", "muted": "#5c5f66", "bg": "#ffffff", "idle": "#e4e6ea",
    "c0": "#0b62a8", "c1": "#a84200", "c2": "#1b7a3a", "c3": "#8a2a8f", "c4": "#7a5a00",
    "c5": "#006d77",
}  # fmt: skip
DARK = {
    "fg": "#e6edf3", "muted": "#a3a8ba", "bg": "#0d1117", "idle": "#353b4f",
    "c0": "#6cb6ff", "c1": "#ffa657", "c2": "#7ee787", "c3": "#e0a2ff", "c4": "#f2cc60",
    "c5": "#56d4dd",
}  # fmt: skip


def _style() -> str:
    def colours(theme: dict[str, str]) -> str:
        rules = [
            f".{name}, .t-{name} {{ fill: {colour} }} .l-{name} {{ stroke: {colour} }}"
            for name, colour in theme.items()
        ]
        extra = f".l-grid, .box {{ stroke: {theme['idle']} }} .edge {{ stroke: {theme['bg']} }}"
        return "\n".join([*rules, extra])

    return (
        "text { font-family: system-ui, sans-serif } .bold { font-weight: 600 }\n"
        "polyline { fill: none; stroke-width: 2; stroke-linejoin: round }\n"
        ".thin { stroke-width: 1 } .thick { stroke-width: 4 } .dash { stroke-dasharray: 6 4 }\n"
        ".edge { stroke-width: 1.5 } .soft { fill-opacity: 0.22 }\n"
        ".code { font-family: monospace }\n"
        f"{colours(LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{colours(DARK)}\n}}\n"
    )


def _classes(*names: str) -> str:
    return " ".join(name for name in names if name)


def _arrow_head(tail: tuple[float, float], tip: tuple[float, float], stroke: str) -> str:
    angle = math.atan2(tip[1] - tail[1], tip[0] - tail[0])
    sides = [(math.cos(angle + side), math.sin(angle + side)) for side in (2.6, -2.6)]
    corners = [tip, *((tip[0] + 9 * x, tip[1] + 9 * y) for x, y in sides)]
    path = " ".join(f"{x:.5g},{y:.5g}" for x, y in corners)
    return f'<polygon class="{stroke}" points="{path}"/>'


class Plot(Drawing):
    """Axes with linear or logarithmic scales; series are drawn with `curve` and `points`."""

    def __init__(
        self,
        x_range: tuple[float, float],
        y_range: tuple[float, float],
        x_label: str,
        y_label: str,
        x_ticks: Sequence[tuple[float, str]],
        y_ticks: Sequence[tuple[float, str]],
        log_x: bool = False,
        log_y: bool = False,
        width: float = 680,
        height: float = 380,
        right: float = 16,
        top: float = 30,
    ) -> None:
        super().__init__(width, height)
        self.x_range, self.y_range, self.log_x, self.log_y = x_range, y_range, log_x, log_y
        self.left, self.right, self.top, self.bottom = 62.0, width - right, top, height - 48.0
        self.text(self.left - 54, 16, y_label, "muted", "start")
        self.text((self.left + self.right) / 2, height - 8, x_label, "muted")
        for value, label in y_ticks:
            y = self.y(value)
            self.line([(self.left, y), (self.right, y)], "grid", "thin")
            self.text(self.left - 8, y + 4, label, "muted", "end")
        for value, label in x_ticks:
            x = self.x(value)
            self.line([(x, self.bottom), (x, self.bottom + 5)], "muted", "thin")
            self.text(x, self.bottom + 19, label, "muted")
        self.line([(self.left, self.bottom), (self.right, self.bottom)], "muted", "thin")

    def x(self, value: float) -> float:
        return self.left + _share(value, self.x_range, self.log_x) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - _share(value, self.y_range, self.log_y) * (self.bottom - self.top)

    def curve(self, xs: Sequence[float], ys: Sequence[float], series: int, extra: str = "") -> None:
        """A line through the points that lie inside the axes."""
        low, high = self.y_range
        inside = [(self.x(x), self.y(y)) for x, y in zip(xs, ys, strict=True) if low <= y <= high]
        self.line(inside, SERIES[series], extra)

    def points(self, xs: Sequence[float], ys: Sequence[float], series: int) -> None:
        for x, y in zip(xs, ys, strict=True):
            self.dot(self.x(x), self.y(y), SERIES[series], series)

    def vertical(self, x: float, stroke: str = "muted", extra: str = "dash thin") -> float:
        """A line across the axes at a value of x; returns where that is in the drawing."""
        at = self.x(x)
        self.line([(at, self.bottom), (at, self.top)], stroke, extra)
        return at

    def label(self, x: float, y: float, text: str, series: int, anchor: str = "start") -> None:
        """A series' name beside its line, in data coordinates."""
        self.text(self.x(x), self.y(y), text, SERIES[series], anchor, 13, "bold")


def _share(value: float, limits: tuple[float, float], log: bool) -> float:
    low, high = limits
    if log:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def ladder(low: float, high: float, ratio: float) -> list[float]:
    """low, low*ratio, ... up to high."""
    count = round(math.log(high / low) / math.log(ratio))
    return [low * ratio**k for k in range(count + 1)]
