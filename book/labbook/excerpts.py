"""Files of the repository, and sections of READMEs."""

import re
from pathlib import Path

from .markdown import BookError, Prose, segments


def find_file(repo: Path, name: str) -> Path:
    """A file of the repository; `lab-03/x` and `capstone/x` mean that lab's folder."""
    head, _, rest = name.partition("/")
    candidates = [repo / name]
    if re.fullmatch(r"lab-\d\d|capstone", head):
        candidates = [p / rest for p in repo.glob(f"phase-*/labs/{head}*")]
    found = [p for p in candidates if p.is_file()]
    if len(found) != 1:
        raise BookError(f"no single file {name!r} in the repository ({len(found)} found)")
    return found[0]


def section(text: str, heading: str, name: str) -> str:
    """The body under the one Markdown heading with this text, up to the next of its level."""
    lines = text.split("\n")
    marks = [
        (piece.line_at(match.start()), len(match[1]), match[2])
        for piece in segments(text, name)
        if isinstance(piece, Prose)
        for match in re.finditer(r"(?m)^(#+)[ \t]+(.*?)[ \t]*$", piece.text)
    ]
    wanted = []
    for k, (line, level, title) in enumerate(marks):
        if title == heading:
            end = next(
                (below - 1 for below, deep, _ in marks[k + 1 :] if deep <= level), len(lines)
            )
            wanted.append("\n".join(lines[line:end]).strip("\n"))
    if len(wanted) != 1:
        known = ", ".join(title for _, _, title in marks)
        raise BookError(f"{name} has {len(wanted)} headings {heading!r}; it has: {known}")
    return wanted[0]
