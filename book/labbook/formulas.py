"""TeX between dollars becomes MathML: no script, no network, read aloud by a screen reader."""

import re

import math_core

from .markdown import BookError

# The font of the formulas, src/assets/lab-math.woff2, is STIX Two Math with the blocks that they
# use, and with its table MATH, by which a browser stretches braces, roots and arrows. It was made
# from @fontsource/stix-two-math 5.3.0 (files/*latin-400-normal.woff2) with fonttools and brotli:
#   pyftsubset FONT.woff2 --output-file=lab-math.woff2 --flavor=woff2 --no-hinting \
#     --layout-features='*' --unicodes=U+20-7E,U+A0,U+B1,U+B7,U+D7,U+F7,U+131,U+237,U+302-304,\
# U+391-3C9,U+2013-2014,U+2026,U+2032-2033,U+210E,U+211D,U+2190-2194,U+21D2,U+2200-220F,\
# U+2211-221E,U+2223-222B,U+2248,U+2260-2265,U+22A4,U+22C5,U+22EF,U+2308-230B,U+23DE-23DF,\
# U+1D434-1D467,U+1D6FC-1D71B

MATH = re.compile(
    r"""(?P<escaped>\\\$)
      | \$\$(?P<display>.+?)\$\$
      | (?<![\\$\w])\$(?P<inline>(?=[^\s$])(?:\\.|[^$\\\n])*?(?:\\.|[^\s\\$]))\$(?![\d$])
    """,
    re.X | re.S,
)
# Markdown would read these as emphasis, tables or quotes inside the MathML text.
_MARKDOWN = {ord(c): f"&#{ord(c)};" for c in r"""*_`[]\~|'".-!$^{}():#+="""}


ENGINE = math_core.LatexToMathML(annotation=False, fancy_error=False)


def formula(tex: str, display: bool, file: str, line: int) -> str:
    """MathML on one line, safe inside Markdown; BookError says what the engine refused."""
    tex = re.sub(r"\n[ \t>]*", "\n", tex.strip())
    try:
        mathml = ENGINE.convert_with_local_state(tex, displaystyle=display)
    except math_core.LatexError as error:
        raise BookError(f"formula: {error} in {tex!r}", file, line) from None
    mathml = re.sub(r"(<[^>]*>)|([^<]+)", _protect, mathml.replace("\n", " "))
    return re.sub(r"<(\w+)((?:\s[^<>]*?)?)/>", r"<\1\2></\1>", mathml)


def formulas(text: str, file: str, first_line: int) -> str:
    """Every formula of a piece of prose; one that stands alone becomes a scrollable block."""

    def one(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match[0]
        line = first_line + text.count("\n", 0, match.start())
        display = match["display"]
        mathml = formula(display or match["inline"], bool(display), file, line)
        alone = re.search(r"(?:^|\n)[ \t>]*$", text[: match.start()])
        return f'<div class="math-block">{mathml}</div>' if display and alone else mathml

    return MATH.sub(one, text)


def _protect(match: re.Match[str]) -> str:
    tag, text = match.groups()
    if tag:
        return tag
    pieces = re.findall(r"&[#\w]+;|.", text)
    return "".join(p if len(p) > 1 else p.translate(_MARKDOWN) for p in pieces)
