"""One chapter: run what it asks for, then put the results in their places.

Directives (in prose; inside code spans they stay as they are):
  {{py: expression | format}}   the value, formatted by Python's format()
  {{check: expression}}         prints nothing; the build fails when it is false
  {{stub: lab-01:name}}         what the learner is given for one function
  {{hints: lab-01:3}}           the hints for what a task asks for, in folds: idea, sketch, formula
  {{task: lab-04:3}}            the same, below a place to write the task and have it graded;
  {{task: lab-04}}              what is said once of these places, and the whole lab's points
  {{drawing: lab-04/x.svg | a}} a lab's SVG file as a figure of the page; a is its text for readers
                                who do not see it
  {{figure: name(arguments)}}   a figure of book/figures
  {{figure: name | lab-04}}     with a switch that draws it by the reader's own functions
  {{fact: text | key}}          a published figure, linked to its entry in the sources
Fences: `python,eval` runs and shows what it printed (`,hide` hides the source), any other python
fence must compile, and every fence names its language.
"""

import ast
import contextlib
import functools
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from labkit.loading import line_in

from .cache import Cache
from .formulas import formulas
from .markdown import BookError, Fence, Prose, outside_code, segments

DIRECTIVE = re.compile(r"\{\{\s*(\w+):\s*(.+?)\s*\}\}", re.S)
CALLS = ("stub", "hints", "task", "drawing", "figure")  # names that are called with the text
NO_PROSE = re.compile(r"\$\$.+?\$\$|\$[^$\n]+\$|<[^>]*>", re.S)  # formulas, tags
TYPED_NUMBER = re.compile(
    r"(?<![\w.{])\d[\d.,]*\s?(?:%|percent|(?:ns|µs|us|ms|[KMGT]i?B(?:/s)?|[KMG]bit/s)\b)"
)
TYPED = (
    "a number typed by hand: {!r}; compute it with {{{{py: ...}}}} or cite it with "
    "{{{{fact: ... | source}}}}"
)
Run = Callable[[str, str, str, int], str]  # kind, source, file, line -> what comes in its place


@dataclass
class Build:
    """What all chapters share; `namespace()` gives the names a chapter's code may use."""

    cache: Cache
    namespace: Callable[[], dict[str, Any]]
    sources: set[str] = field(default_factory=set)


def render(text: str, file: str, build: Build) -> str:
    """The chapter's Markdown with everything computed. BookError carries file and line."""
    pieces, asked = list(segments(text, file)), []
    _fill(pieces, lambda kind, source, *place: asked.append((kind, source)) or "", build.sources)

    def results() -> list[str]:
        names, found = functools.cache(build.namespace), []

        def run(*asked: Any) -> str:
            found.append(_run(*asked, names()))
            return found[-1]

        _fill(pieces, run, build.sources)
        return found

    kept = iter(build.cache.get([file, asked], results))
    return _fill(pieces, lambda *asked: next(kept), build.sources)


def _fill(pieces: Iterable[Prose | Fence], run: Run, sources: set[str]) -> str:
    return "".join(
        _fence(piece, run) if isinstance(piece, Fence) else _prose(piece, run, sources)
        for piece in pieces
    )


# --- running ----------------------------------------------------------------------------------


def _run(kind: str, source: str, file: str, line: int, names: dict[str, Any]) -> str:
    try:
        if kind == "block":
            printed = io.StringIO()
            padded = "\n" * (line - 1) + source  # tracebacks then show the chapter's line
            with contextlib.redirect_stdout(printed):
                exec(compile(padded, file, "exec"), names)
            return printed.getvalue()
        if kind == "check":
            _check(source, names)
            return ""
        if kind in CALLS:
            return str(names[kind](source))
        expression, bar, spec = source.rpartition(" | ")
        value = eval((expression if bar else source).strip(), names)
        if isinstance(value, Fraction) and bar:
            value = float(value)  # Fraction has no format codes before Python 3.12
        return format(value, spec.strip() if bar else "")
    except BookError:
        raise
    except Exception as error:
        line = line_in(error, file) or line
        what = " ".join(source.split())[:120]
        raise BookError(f"{type(error).__name__}: {error} in {what!r}", file, line) from error


def _check(source: str, names: dict[str, Any]) -> None:
    if eval(source, names):
        return
    claim, sides = ast.parse(source, mode="eval").body, []
    for side in (claim.left, *claim.comparators) if isinstance(claim, ast.Compare) else ():
        text = ast.unparse(side)
        value = repr(eval(text, names))
        sides += [f"{text} = {value}"] if value != text else []
    told = f" ({'; '.join(sides)})" if sides else ""
    raise BookError(f"this claim is no longer true: {source}{told}")


# --- composing --------------------------------------------------------------------------------


def _prose(piece: Prose, run: Run, sources: set[str]) -> str:
    blocks: list[str] = []

    def fill(text: str, offset: int) -> str:
        def one(match: re.Match[str]) -> str:
            kind, source = match.groups()
            line = piece.line_at(offset + match.start())
            with _at(piece.file, line):
                if kind == "fact":
                    return _fact(source, sources)
                if kind not in ("py", "check", *CALLS):
                    raise BookError(f"unknown directive {match[0]!r}")
                value = run(kind, source, piece.file, line)
            if "\n" not in value and kind not in ("figure", "drawing"):
                return value
            blocks.append(value)
            return f"\x00{len(blocks) - 1}\x00"

        _expect_no_number(piece, text, offset)
        return formulas(DIRECTIVE.sub(one, text), piece.file, piece.line_at(offset))

    done = outside_code(piece.text, fill)
    return re.sub("\x00(\\d+)\x00", lambda m: blocks[int(m[1])], done)


def _expect_no_number(piece: Prose, text: str, offset: int) -> None:
    """What is no directive holds no measured number, and no braces of a directive."""
    rest = DIRECTIVE.sub(_blank, text)
    bad, says = re.search(r"\{\{.{0,40}", rest), "cannot read {!r}"
    if not bad:
        bad, says = TYPED_NUMBER.search(NO_PROSE.sub(_blank, rest)), TYPED
    if bad:
        line = piece.line_at(offset + bad.start())
        raise BookError(says.format(bad[0]), piece.file, line)


def _blank(match: re.Match[str]) -> str:
    """As much white space, so that what stands behind it keeps its place."""
    return re.sub(r"\S", " ", match[0])


def _fact(source: str, sources: set[str]) -> str:
    text, _, key = source.rpartition(" | ")
    if key not in sources:
        raise BookError(f"no source {key!r} in sources.md")
    return f'<a class="source" href="sources.html#{key}" title="Source: {key}">{text}</a>'


def _fence(fence: Fence, run: Run) -> str:
    tags, lines = fence.tags, []
    with _at(fence.file, fence.line):
        if not tags:
            raise BookError("this code block names no language")
        if not fence.body.strip():
            raise BookError("this code block is empty")
        if tags[0] == "python":
            _expect_python(fence)
        if not (fence.runs and "hide" in tags):
            lines += [f"```{tags[0]}", *fence.body.split("\n"), "```"]
        if fence.runs:
            printed = run("block", fence.body, fence.file, fence.line + 1).rstrip("\n")
            if printed.strip():
                lines += ["", "```text", *printed.split("\n"), "```"]
    return "\n".join((fence.prefix + line).rstrip() for line in lines) + "\n"


def _expect_python(fence: Fence) -> None:
    try:
        ast.parse(fence.body)
    except SyntaxError as error:
        line = fence.line + (error.lineno or 1)
        raise BookError(f"python: {error.msg}", fence.file, line) from None


@contextlib.contextmanager
def _at(file: str, line: int) -> Any:
    """Give an error that does not know where it happened this place."""
    try:
        yield
    except BookError as error:
        if error.file:
            raise
        raise BookError(error.message, file, line) from None
