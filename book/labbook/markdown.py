"""A chapter as prose and fenced code, every piece with its place in its file; and a table."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

_FENCE = re.compile(
    r"^(?P<prefix>[ \t>]*)(?P<ticks>`{3,}+|~{3,}+)(?P<info>[^\n]*)(?:\n|\Z)"
    r"(?P<body>.*?)(?:^[ \t>]*(?P=ticks)[`~]*[ \t]*$|(?P<unclosed>\Z))",
    re.M | re.S,
)
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

    @property
    def runs(self) -> bool:
        """Whether its code is run, and what it prints shown."""
        return "eval" in self.tags[1:]


def segments(text: str, file: str) -> Iterator[Prose | Fence]:
    """Yield the chapter's pieces in order; an unclosed fence is an error."""

    def line_of(position: int) -> int:
        return 1 + text.count("\n", 0, position)

    begin = 0
    for found in _FENCE.finditer(text):
        if found.start() > begin:
            yield Prose(text[begin : found.start()], file, line_of(begin))
        prefix, line = found["prefix"], line_of(found.start())
        if found["unclosed"] is not None:
            raise BookError("this code block is never closed", file, line)
        body = "\n".join(
            row.removeprefix(prefix) for row in found["body"].removesuffix("\n").split("\n")
        )
        yield Fence(prefix, found["info"].strip(), body, file, line)
        begin = found.end() + 1
    if begin < len(text):
        yield Prose(text[begin:], file, line_of(begin))


def outside_code(text: str, change: Callable[[str, int], str]) -> str:
    """Apply `change(piece, offset)` to the text outside code spans and HTML comments."""
    out: list[str] = []
    position = 0
    for span in _CODE_OR_COMMENT.finditer(text):
        out += [change(text[position : span.start()], position), span.group(0)]
        position = span.end()
    out.append(change(text[position:], position))
    return "".join(out)


def table(header: list[str], rows: list[list[Any]], align: str = "") -> str:
    """A Markdown table; align has one of l, r, c per column."""
    marks = {"l": "---", "r": "--:", "c": ":-:"}
    rule = [marks[letter] for letter in align or "l" * len(header)]
    lines: list[list[Any]] = [header, rule, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
