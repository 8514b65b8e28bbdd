"""TeX between dollars becomes MathML: no script, no network, read aloud by a screen reader."""

import re
from typing import Any

from .markdown import BookError

MATH = re.compile(
    r"""(?P<escaped>\\\$)
      | \$\$(?P<display>.+?)\$\$
      | (?<![\\$\w])\$(?P<inline>(?=[^\s$])(?:\\.|[^$\\\n])*?(?:\\.|[^\s\\$]))\$(?![\d$])
    """,
    re.X | re.S,
)
# Markdown would read these as emphasis, tables or quotes inside the MathML text.
_MARKDOWN = {ord(c): f"&#{ord(c)};" for c in r"""*_`[]\~|'".-!$^{}():#+="""}


class Formulas:
    """Converts formulas; the engine is imported at the first one and counted in `converted`."""

    def __init__(self) -> None:
        self._engine: Any = None
        self.converted = 0

    def convert(self, tex: str, display: bool) -> str:
        """MathML on one line, safe inside Markdown; BookError says what the engine refused."""
        import math_core

        if self._engine is None:
            self._engine = math_core.LatexToMathML(annotation=False, fancy_error=False)
        tex = re.sub(r"\n[ \t>]*", "\n", tex.strip())
        try:
            mathml = self._engine.convert_with_local_state(tex, displaystyle=display)
        except math_core.LatexError as error:
            raise BookError(f"formula: {error} in {tex!r}") from None
        self.converted += 1
        mathml = re.sub(r"(<[^>]*>)|([^<]+)", _protect, mathml.replace("\n", " "))
        return re.sub(r"<(\w+)((?:\s[^<>]*?)?)/>", r"<\1\2></\1>", mathml)

    def replace(self, text: str) -> str:
        """Every formula of a piece of prose; one that stands alone becomes a scrollable block.

        A BookError's line counts from the start of `text`, from 0.
        """

        def one(match: re.Match[str]) -> str:
            if match["escaped"]:
                return match[0]
            try:
                mathml = self.convert(match["display"] or match["inline"], bool(match["display"]))
            except BookError as error:
                line = text.count("\n", 0, match.start())
                raise BookError(error.message, line=line) from None
            if not match["display"]:
                return mathml
            alone = re.search(r"(?:^|\n)[ \t>]*$", text[: match.start()])
            return f'<div class="math-block">{mathml}</div>' if alone else mathml

        return MATH.sub(one, text)


def _protect(match: re.Match[str]) -> str:
    tag, text = match.groups()
    if tag:
        return tag
    pieces = re.findall(r"&[#\w]+;|.", text)
    return "".join(p if len(p) > 1 else p.translate(_MARKDOWN) for p in pieces)
