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
import io
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

from labkit.loading import line_in

from .cache import Cache
from .excerpts import find_file
from .formulas import formulas
from .markdown import BookError, Fence, Prose, outside_code, segments

DIRECTIVE = re.compile(r"\{\{\s*(\w+):\s*(.+?)\s*\}\}", re.S)
RUN = ("py", "check", "stub", "hints", "task", "figure")
NO_PROSE = re.compile(r"\$\$.+?\$\$|\$[^$\n]+\$|<[^>]*>", re.S)  # formulas, tags
TYPED_NUMBER = re.compile(
    r"(?<![\w.{])\d[\d.,]*\s?(?:%|percent|(?:ns|µs|us|ms|[KMGT]i?B(?:/s)?|[KMG]bit/s)\b)"
)


@dataclass(frozen=True)
class Job:
    """Something to run: the source of a directive or of an eval fence."""

    kind: str
    source: str
    file: str
    line: int


@dataclass
class Build:
    """What all chapters share; `namespace(source)` gives the names a chapter's code may use."""

    repo: Path
    cache: Cache
    namespace: Callable[[str], dict[str, Any]]
    sources: set[str] = field(default_factory=set)


def render(text: str, file: str, build: Build) -> str:
    """The chapter's Markdown with everything computed. BookError carries file and line."""
    pieces = list(segments(text, file))
    jobs = [job for piece in pieces for job in _jobs(piece)]
    found = _results(file, jobs, build)
    results, out = iter(found), []
    for piece in pieces:
        if isinstance(piece, Fence):
            out.append(_fence(piece, results, build))
        else:
            out.append(_prose(piece, results, build))
    return "".join(out)


def _drawing(source: str, build: Build) -> str:
    """A lab's SVG file becomes a figure of the page, so that it follows the page's theme."""
    name, _, alt = (part.strip() for part in source.partition(" | "))
    svg = find_file(build.repo, name).read_text(encoding="utf-8")
    svg = " ".join(svg[svg.index("<svg") :].split())
    svg = re.sub(r"<style>.*?</style>", "", svg)  # the theme has its own colours
    label = f'role="img" aria-label="{escape(" ".join(alt.split()), quote=True)}"'
    opening = re.sub(r'\s(?:role|aria-label)="[^"]*"', "", svg.partition(">")[0])
    width = re.search(r'\swidth="(\d+)"', opening)
    smallest = f' style="min-width:{width[1]}px"' if width else ""  # scrolls, not shrinks
    svg = f"{opening} {label}{smallest}>" + svg.partition(">")[2]
    return f'<figure class="lab-figure"><div class="scroll">{svg}</div></figure>'


def _jobs(piece: Prose | Fence) -> list[Job]:
    if isinstance(piece, Fence):
        _check_fence(piece)
        run = "eval" in piece.tags[1:]
        return [Job("block", piece.body, piece.file, piece.line + 1)] if run else []
    found: list[Job] = []

    def collect(text: str, offset: int) -> str:
        for match in DIRECTIVE.finditer(text):
            line = piece.line_at(offset + match.start())
            if match[1] not in (*RUN, "fact", "drawing"):
                raise BookError(f"unknown directive {match[0]!r}", piece.file, line)
            if match[1] in RUN:
                found.append(Job(match[1], match[2], piece.file, line))
        rest = DIRECTIVE.sub(_blank, text)
        if bad := re.search(r"\{\{.{0,40}", rest):
            line = piece.line_at(offset + bad.start())
            raise BookError(f"cannot read {bad[0]!r}", piece.file, line)
        typed = TYPED_NUMBER.search(NO_PROSE.sub(_blank, rest))
        if typed:
            raise BookError(
                f"a number typed by hand: {typed[0]!r}; compute it with {{{{py: ...}}}} or cite it "
                "with {{fact: ... | source}}",
                piece.file,
                piece.line_at(offset + typed.start()),
            )
        return text

    outside_code(piece.text, collect)
    return found


def _blank(match: re.Match[str]) -> str:
    """As much white space, so that what stands behind it keeps its place."""
    return re.sub(r"\S", " ", match[0])


def _check_fence(fence: Fence) -> None:
    with _at(fence.file, fence.line):
        if not fence.tags:
            raise BookError("this code block names no language")
        if not fence.body.strip():
            raise BookError("this code block is empty")
    if fence.tags[0] == "python":
        try:
            ast.parse(fence.body)
        except SyntaxError as error:
            line = fence.line + (error.lineno or 1)
            raise BookError(f"python: {error.msg}", fence.file, line) from None


# --- running ----------------------------------------------------------------------------------


def _results(file: str, jobs: list[Job], build: Build) -> list[str]:
    if not jobs:
        return []
    key = [file, *((job.kind, job.source) for job in jobs)]

    def run() -> list[str]:
        names = _names(jobs, build)
        return [_run_one(job, names) for job in jobs]

    return build.cache.get(key, run)


def _names(jobs: list[Job], build: Build) -> dict[str, Any]:
    try:
        return build.namespace("\n".join(job.source for job in jobs))
    except BookError:
        for job in jobs:  # which of them names the lab that cannot be loaded
            with _at(job.file, job.line):
                build.namespace(job.source)
        raise


def _run_one(job: Job, names: dict[str, Any]) -> str:
    try:
        if job.kind == "block":
            printed = io.StringIO()
            padded = "\n" * (job.line - 1) + job.source  # tracebacks then show the chapter's line
            with contextlib.redirect_stdout(printed):
                exec(compile(padded, job.file, "exec"), names)
            return printed.getvalue()
        if job.kind == "check":
            _check(job.source, names)
            return ""
        if job.kind == "figure":
            return names["figures"].draw(job.source)
        if job.kind in ("hints", "task"):
            return str(names[job.kind](job.source))
        if job.kind == "stub":
            return f"```python\n{names['stub'](job.source)}\n```"
        expression, bar, spec = job.source.rpartition(" | ")
        value = eval((expression if bar else job.source).strip(), names)
        if isinstance(value, Fraction) and bar:
            value = float(value)  # Fraction has no format codes before Python 3.12
        return format(value, spec.strip() if bar else "")
    except BookError as error:
        raise BookError(error.message, job.file, job.line) from None
    except Exception as error:
        line = line_in(error, job.file) or job.line
        what = " ".join(job.source.split())[:120]
        raise BookError(f"{type(error).__name__}: {error} in {what!r}", job.file, line) from error


def _check(source: str, names: dict[str, Any]) -> None:
    if eval(source, names):
        return
    node = ast.parse(source, mode="eval").body
    sides = ""
    if isinstance(node, ast.Compare):
        operands = [ast.unparse(side) for side in (node.left, *node.comparators)]
        values = [f"{text} = {eval(text, names)!r}" for text in operands]
        sides = "; ".join(
            v for v, text in zip(values, operands, strict=True) if v != f"{text} = {text}"
        )
    raise BookError(f"this claim is no longer true: {source}" + (f" ({sides})" if sides else ""))


# --- composing --------------------------------------------------------------------------------


def _prose(piece: Prose, results: Any, build: Build) -> str:
    blocks: list[str] = []

    def fill(text: str, offset: int) -> str:
        def one(match: re.Match[str]) -> str:
            kind, source = match[1], match[2]
            with _at(piece.file, piece.line_at(offset + match.start())):
                if kind in RUN:
                    value = next(results)
                else:
                    value = (_fact if kind == "fact" else _drawing)(source, build)
            if "\n" not in value and kind not in ("figure", "drawing"):
                return value
            blocks.append(value)
            return f"\x00{len(blocks) - 1}\x00"

        filled = DIRECTIVE.sub(one, text)
        return formulas(filled, piece.file, piece.line_at(offset))

    done = outside_code(piece.text, fill)
    return re.sub("\x00(\\d+)\x00", lambda m: blocks[int(m[1])], done)


def _fact(source: str, build: Build) -> str:
    text, _, key = source.rpartition(" | ")
    if key not in build.sources:
        raise BookError(f"no source {key!r} in sources.md")
    return f'<a class="source" href="sources.html#{key}" title="Source: {key}">{text}</a>'


def _fence(fence: Fence, results: Any, build: Build) -> str:
    tags = fence.tags
    lines = []
    if "eval" not in tags[1:] or "hide" not in tags:
        lines += [f"```{tags[0]}", *fence.body.split("\n"), "```"]
    if "eval" in tags[1:]:
        printed = next(results).rstrip("\n")
        if printed.strip():
            lines += ["", "```text", *printed.split("\n"), "```"]
    return "\n".join((fence.prefix + line).rstrip() for line in lines) + "\n"


@contextlib.contextmanager
def _at(file: str, line: int) -> Any:
    """Give an error that does not know where it happened this place."""
    try:
        yield
    except BookError as error:
        if error.file:
            raise
        raise BookError(error.message, file, line) from None
