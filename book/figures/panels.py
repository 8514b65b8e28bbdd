"""What several figures share: panels, steps, a key of colours, and the width of a phone."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape

from labkit.svg import Drawing, Plot

SPLITS = {"DP": "c4", "TP": "c0", "PP": "c2", "EP": "c3", "CP": "c5"}  # as in theme/lab.css
WIDTH = 420  # fits a phone without scrolling; text of 13 stays above 11 pixels there


def panels(
    drawings: Sequence[tuple[Drawing, str]],
    caption: str,
    says: Sequence[str] = (),
    frames: bool = False,
    start: int = 0,
) -> str:
    """One figure of (drawing, text alternative) pairs, which stand below each other on a phone.

    says: what to tell at each step; then what `part` marks comes step by step, or with `frames`
    drawing k at step k, by src/widgets/lab-steps.js, which opens at step `start`. Without it, and
    in print, all is seen at once.
    """
    shown = "".join(
        d.inline(alt, f' data-step="{k}"' if frames else "") for k, (d, alt) in enumerate(drawings)
    )
    told = f' start="{start}" says="{escape(json.dumps(says), quote=True)}"' if says else ""
    name = "lab-steps" if says else "div"
    return (
        f'<figure class="lab-figure"><{name} class="panels"{told}>{shown}</{name}>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def log_plot(x_range, y_range, x_label, y_label, xs, ys, height=320) -> Plot:
    """A plot for a phone; both axes are logarithmic and have ticks at xs and ys."""
    ticks = [[(n, str(n)) for n in numbers] for numbers in (xs, ys)]
    return Plot(x_range, y_range, x_label, y_label, *ticks, True, True, WIDTH, height)


@contextmanager
def part(d: Drawing, when: str, step: int) -> Iterator[None]:
    """What is drawn inside is seen at this step only ("step"), or from it on ("from")."""
    d.parts.append(f'<g data-{when}="{step}">')
    yield
    d.parts.append("</g>")


def bar(
    d: Drawing,
    x: float,
    y: float,
    height: float,
    parts: Sequence[tuple[float, str, str]],
    scale: float,
) -> None:
    """Boxes behind each other, (length, colour, label); a label is written where it fits."""
    for length, fill, label in parts:
        width = length * scale
        d.rect(x, y, width, height, fill, "edge")
        if label and width > 36:
            ink = "fg" if fill == "idle" else "bg"
            d.text(x + width / 2, y + height / 2 + 5, label, ink, size=13)
        x += width


def key(d: Drawing, y: float, colours: dict[str, str]) -> None:
    """What the colours mean, in two columns."""
    for k, (label, fill) in enumerate(colours.items()):
        x, top = 14 + (k % 2) * 200, y + (k // 2) * 24
        d.rect(x, top, 15, 15, fill, "edge")
        d.text(x + 22, top + 12, label, "fg", "start", 13)
