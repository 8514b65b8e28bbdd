"""Files of the repository, and sections of READMEs."""

import re
from pathlib import Path

from .markdown import BookError


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
    wanted, fenced = [], False
    lines = text.split("\n")
    marks: list[tuple[int, int, str]] = []
    for i, line in enumerate(lines):
        fenced ^= line.lstrip().startswith("```")
        match = None if fenced else re.match(r"(#+)\s+(.*?)\s*$", line)
        if match:
            marks.append((i, len(match[1]), match[2]))
    for k, (i, level, title) in enumerate(marks):
        if title == heading:
            end = next((j for j, deep, _ in marks[k + 1 :] if deep <= level), len(lines))
            wanted.append("\n".join(lines[i + 1 : end]).strip("\n"))
    if len(wanted) != 1:
        known = ", ".join(title for _, _, title in marks)
        raise BookError(f"{name} has {len(wanted)} headings {heading!r}; it has: {known}")
    return wanted[0]
