"""Split a chapter into prose and fenced code, keeping every piece's place in its file."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

_FENCE = re.compile(r"^([ \t>]*)(`{3,}|~{3,})([^\n]*)$")
_CODE_OR_COMMENT = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)|<!--.*?-->", re.S)


class BookError(Exception):
    """Something a chapter asks for cannot be done; `line` counts within its file, from 1."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(message)
        self.message, self.file, self.line = message, file, line

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.file else self.message


def pick(known: Mapping[str, Any], name: str, what: str) -> Any:
    """known[name]; BookError with the names that are most like it when there is none."""
    if name not in known:
        like = ", ".join(get_close_matches(name, known, 5, 0))
        raise BookError(f"no {what} {name!r}; there are {like}")
    return known[name]


@dataclass(frozen=True)
class Prose:
    """Markdown outside fences; `line` is where it starts in `file`."""

    text: str
    file: str
    line: int

    def line_at(self, position: int) -> int:
        """The line of its file in which this place of the text is."""
        return self.line + self.text.count("\n", 0, position)


@dataclass(frozen=True)
class Fence:
    """A fenced block; `prefix` is the indentation or quote mark that each line carries."""

    prefix: str
    info: str
    body: str
    file: str
    line: int

    @property
    def tags(self) -> list[str]:
        return self.info.replace(",", " ").split()


def segments(text: str, file: str, first_line: int = 1) -> Iterator[Prose | Fence]:
    """Yield the chapter's pieces in order; an unclosed fence is an error."""
    lines = text.split("\n")
    start = i = 0
    while i < len(lines):
        opening = _FENCE.match(lines[i])
        if not opening:
            i += 1
            continue
        if i > start:
            yield Prose("\n".join(lines[start:i]) + "\n", file, first_line + start)
        prefix, ticks, info = opening.groups()
        closing = re.compile(rf"^[ \t>]*{re.escape(ticks[0])}{{{len(ticks)},}}[ \t]*$")
        end = i + 1
        while end < len(lines) and not closing.match(lines[end]):
            end += 1
        if end == len(lines):
            raise BookError("this code block is never closed", file, first_line + i)
        body = [
            line[len(prefix) :] if line.startswith(prefix) else line.lstrip()
            for line in lines[i + 1 : end]
        ]
        yield Fence(prefix, info.strip(), "\n".join(body), file, first_line + i)
        start = i = end + 1
    if start < len(lines):
        yield Prose("\n".join(lines[start:]), file, first_line + start)


def outside_code(text: str, change: Callable[[str, int], str]) -> str:
    """Apply `change(piece, offset)` to the text outside code spans and HTML comments."""
    out: list[str] = []
    position = 0
    for span in _CODE_OR_COMMENT.finditer(text):
        out += [change(text[position : span.start()], position), span.group(0)]
        position = span.end()
    out.append(change(text[position:], position))
    return "".join(out)
