"""The first use of a term on a page becomes a link to its entry in the glossary, with a tooltip."""

from __future__ import annotations

import functools
import re
from html import escape
from pathlib import Path

# Not prose, or a link already: code, math, HTML tags, links, headings, tables, computed blocks.
_SKIP = re.compile(
    r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)|<math.*?</math>|<a\b.*?</a>|<summary>.*?</summary>|<[^>]+>"
    r"|!?\[[^\]]*\]\([^)]*\)|^[#|>].*?$|\x00\d+\x00",
    re.S | re.M,
)
_TOO_COMMON = {"activation", "batch", "block", "capture", "latency", "ledger", "node", "shard"}


@functools.cache
def terms(file: Path) -> dict[str, tuple[str, str]]:
    """{name as written: (anchor, definition)} of glossary.md; abbreviations are names too."""
    found = {}
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    for entry, body in re.findall(r"(?ms)^(\w[^\n]*)\n: (.*?)(?=\n\n|\Z)", text):
        definition = re.sub(r"\{\{fact: (.*?) \| .*?\}\}|\[(.*?)\]\(.*?\)", r"\1\2", body)
        definition = " ".join(re.sub(r"[*`]", "", definition).split())
        anchor = re.sub(r"[^\w-]", "", entry.lower().replace(" ", "-"))
        names = re.split(r", | \(", entry.rstrip(")"))
        for name in names:
            if name.lower() not in _TOO_COMMON and not name.startswith("of "):
                found[name if name.isupper() else name.lower()] = (anchor, definition)
    return found


def link(text: str, known: dict[str, tuple[str, str]], seen: set[str]) -> str:
    """The Markdown with the first use of each term linked; `seen` holds the anchors of the page."""
    if not known:
        return text
    names = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
    either = re.compile(rf"(?<![\w*=-])(?:{names})(?![\w*-])", re.I)

    def one(match: re.Match[str]) -> str:
        name = match[0] if match[0] in known else match[0].lower()
        if name not in known or known[name][0] in seen:
            return match[0]
        anchor, definition = known[name]
        seen.add(anchor)
        title = escape(definition, quote=True)
        return f'<a class="term" href="glossary.html#{anchor}" title="{title}">{match[0]}</a>'

    out, position = [], 0
    for skipped in _SKIP.finditer(text):
        out += [either.sub(one, text[position : skipped.start()]), skipped[0]]
        position = skipped.end()
    return "".join([*out, either.sub(one, text[position:])])
