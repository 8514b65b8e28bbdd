"""Text of a submission or an export made inert: it may be shown, but it may not act."""

import hashlib
import re
import unicodedata

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,16}")
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?", re.DOTALL)


class Problem(Exception):
    """What an instructor can mend; str() is the sentence that says how."""


def clean(text, limit=1000) -> str:
    """One line of printable characters: no escape sequence, control, direction or surrogate.

    Memory addresses are masked, so that the same hand-in gives the same record twice.
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


def cell(text) -> str:
    """A spreadsheet's cell that is text even if it looks like a formula, be it in wide letters."""
    text = clean(text)
    first = unicodedata.normalize("NFKC", text[:1])
    return "'" + text if first.startswith(("=", "+", "-", "@", "|", "%")) else text


def file_name(name) -> str:
    """The name of a file that no other student has: their own where every file system takes it.

    Another name begins with a sign that no own one may begin with, so nobody can choose it.
    """
    plain = re.fullmatch(r"\w[\w ,()@'.+-]*(?<![ .])", name) and len(name.encode()) <= 80
    reserved = re.fullmatch(r"(?i)(con|prn|aux|nul|index)(\..*)?", name)
    if plain and clean(name) == name and not reserved:
        return name
    slug = re.sub(r"[^A-Za-z0-9]+", "-", clean(name, 40)).strip("-") or "student"
    return f"~{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def folded(name) -> str:
    """A name or number as two spellings of it are compared: letters and digits, no case."""
    name = unicodedata.normalize("NFC", clean(name, 200)).casefold()
    return "".join(letter for letter in name if letter.isalnum())


def count(number, one, several=None) -> str:
    """`1 hand-in`, `2 hand-ins`."""
    return f"{number} {one if number == 1 else several or one + 's'}"
