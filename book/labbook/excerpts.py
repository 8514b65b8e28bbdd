"""Parts of the repository's files, named by symbol, anchor, heading or line range."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from .markdown import BookError

LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".sh": "bash", ".js": "javascript"}


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


def excerpt(repo: Path, target: str) -> tuple[str, str]:
    """`path[:part]` -> (language, text); part is a symbol, an ANCHOR, a #heading or lines 3-9."""
    name, _, part = target.partition(":")
    path = find_file(repo, name.strip())
    text = path.read_text(encoding="utf-8")
    part = part.strip()
    if not part:
        chosen = text
    elif part.startswith("#"):
        chosen = section(text, part[1:], name)
    elif re.fullmatch(r"\d+-\d+", part):
        chosen = _line_range(text, part, name)
    elif f"ANCHOR: {part}" in text:
        chosen = _anchored(text, part, name)
    elif path.suffix == ".py":
        chosen = _symbol(text, part, name)
    else:
        raise BookError(f"{name} has no part {part!r}")
    lines = [line for line in chosen.split("\n") if not re.search(r"ANCHOR(_END)?:", line)]
    return LANGUAGES.get(path.suffix, "text"), textwrap.dedent("\n".join(lines)).strip("\n")


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


def _line_range(text: str, part: str, name: str) -> str:
    first, last = (int(n) for n in part.split("-"))
    lines = text.splitlines()
    if not 1 <= first <= last <= len(lines):
        raise BookError(f"{name} has lines 1-{len(lines)}, not {part}")
    return "\n".join(lines[first - 1 : last])


def _anchored(text: str, anchor: str, name: str) -> str:
    lines = text.splitlines()
    starts = [i for i, s in enumerate(lines) if re.search(rf"ANCHOR:\s*{re.escape(anchor)}$", s)]
    ends = [i for i, s in enumerate(lines) if re.search(rf"ANCHOR_END:\s*{re.escape(anchor)}$", s)]
    if len(starts) != 1 or len(ends) != 1 or ends[0] < starts[0]:
        raise BookError(f"{name} has no single anchor {anchor!r}")
    return "\n".join(lines[starts[0] + 1 : ends[0]])


def _symbol(text: str, symbol: str, name: str) -> str:
    """A function, class, method (`Class.method`) or module constant, with its decorators."""
    scope: list[ast.stmt] = ast.parse(text).body
    node: ast.stmt | None = None
    for step in symbol.split("."):
        node = next((s for s in scope if step in _names(s)), None)
        if node is None:
            raise BookError(f"{name} defines no {symbol!r}")
        scope = getattr(node, "body", [])
    assert node is not None
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno])


def _names(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return {t.id for t in targets if isinstance(t, ast.Name)}
