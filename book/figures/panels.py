"""Several small drawings side by side, which stand below each other on a phone."""

from collections.abc import Sequence
from html import escape

from labkit.svg import Drawing


def panels(drawings: Sequence[tuple[Drawing, str]], caption: str) -> str:
    """One figure of (drawing, text alternative) pairs; each is at most 340 px wide."""
    shown = "".join(
        f'<svg role="img" aria-label="{escape(" ".join(alt.split()), quote=True)}" '
        f'viewBox="0 0 {d.width:g} {d.height:g}" width="{d.width:g}">{"".join(d.parts)}</svg>'
        for d, alt in drawings
    )
    return (
        f'<figure class="lab-figure"><div class="panels">{shown}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )
