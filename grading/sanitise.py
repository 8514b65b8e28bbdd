"""Hostile text made inert: what a submission says may be shown, but it may not act."""

import hashlib
import re
import unicodedata

MAX_SENTENCE = 1000

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}")
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", re.DOTALL)


def clean(text, limit=MAX_SENTENCE) -> str:
    """One line of printable characters: no escape sequence, control, direction or surrogate.

    Memory addresses are masked, so that the same submission gives the same record twice.
    """
    text = _ESCAPE.sub("", _ADDRESS.sub("0x...", str(text)[: 8 * limit]))
    kept = []
    for letter in text:
        kind = unicodedata.category(letter)
        if kind in ("Cc", "Zl", "Zp"):
            kept.append(" ")
        elif kind not in ("Cf", "Cs", "Co", "Cn"):
            kept.append(letter)
    line = " ".join("".join(kept).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def clean_lines(text, limit=4000) -> str:
    """The same for text of several lines."""
    return "\n".join(clean(line) for line in str(text)[:limit].splitlines())


def file_name(name) -> str:
    """A name for a file that no other student has and no file system minds."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", clean(name, 60)).strip("-").lower() or "student"
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{slug[:48]}-{digest[:16]}"  # long enough that nobody finds a name with another's hash


def cell(text) -> str:
    """A spreadsheet cell that is text even if it looks like a formula, be it in wide letters."""
    text = clean(text)
    first = unicodedata.normalize("NFKC", text[:1])
    return "'" + text if first.startswith(("=", "+", "-", "@", "|", "%")) else text
