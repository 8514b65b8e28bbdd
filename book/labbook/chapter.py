"""One chapter: run what it asks for, then put the results in their places.

Directives (in prose; inside code spans they stay as they are):
  {{py: expression | format}}   the value, formatted by Python's format()
  {{check: expression}}         prints nothing; the build fails when it is false
  {{readme: lab-03 | texts}}    prints nothing; the README that is included must say these texts,
                                and no quantity that none of them says
  {{stub: lab-01:name}}         what the learner is given for one function
  {{hints: lab-01:name}}        the function's hints in folds: idea, sketch, formula
  {{include: path:#Heading}}    a section of a README
  {{figure: name(arguments)}}   a figure of book/figures
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
from .excerpts import find_file, section
from .formulas import formulas
from .markdown import BookError, Fence, Prose, outside_code, segments

DIRECTIVE = re.compile(r"\{\{\s*(\w+):\s*(.+?)\s*\}\}", re.S)
RUN = ("py", "check", "readme", "stub", "hints", "figure")
TEXT_FENCE = re.compile(r"(?ms)^```text\n.*?^```$")
DRAWING = re.compile(r"!\[[^\]]*\]\([^)]+\)")
NO_PROSE = re.compile(r"\$\$.+?\$\$|\$[^$\n]+\$|<[^>]*>", re.S)  # formulas, tags
README = "README: "  # how the pieces of an included README name their file
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
    pieces = _pieces(text, file, build)
    jobs = [job for piece in pieces for job in _jobs(piece)]
    found = _results(file, jobs, build)
    _check_readmes(pieces, [(j, said) for j, said in zip(jobs, found, strict=True) if said], build)
    results, out = iter(found), []
    for piece in pieces:
        if isinstance(piece, Fence):
            out.append(_fence(piece, results, build))
        else:
            out.append(_prose(piece, results, build))
    return "".join(out)


def _check_readmes(
    pieces: list[Prose | Fence], results: list[tuple[Job, str]], build: Build
) -> None:
    """A README says what its chapter computed, and beside that no number with a unit."""
    computed = [(job, texts.split("\n")) for job, texts in results if job.kind == "readme"]
    said = [(job, text) for job, texts in computed for text in texts]
    for job, text in said:
        readme = find_file(build.repo, f"{job.source.partition(' ')[0]}/README.md")
        if text not in " ".join(readme.read_text(encoding="utf-8").split()):
            raise BookError(f"the README does not say {text!r}, as computed", job.file, job.line)
    for piece in pieces:
        if isinstance(piece, Prose) and piece.file.startswith(README):
            rest = " ".join(piece.text.split())
            for _, text in said:
                rest = rest.replace(text, " ")
            typed = TYPED_NUMBER.search(
                re.sub(r"<svg.*?</svg>|`[^`]*`|<[^>]*>|\$[^$]+\$", " ", rest)
            )
            if typed:
                where = rest[max(0, typed.start() - 40) : typed.end()]
                raise BookError(
                    f"a number typed by hand in {piece.file}: {where!r}; the chapter that includes "
                    "it has to compute it: {{readme: lab-03 | ...}}"
                )


def _pieces(text: str, file: str, build: Build) -> list[Prose | Fence]:
    """The chapter's segments, with sections of READMEs in the place of their includes."""
    pieces: list[Prose | Fence] = []
    for piece in segments(text, file):
        if isinstance(piece, Fence):
            pieces.append(piece)
            continue
        line = piece.line
        for part in re.split(r"(?m)(^\{\{include:[^\n]*\}\}[ \t]*\n?)", piece.text):
            target = re.match(r"\{\{include:\s*(.+?)\s*\}\}", part)
            if target:
                with _at(file, line):
                    included = _included(target[1], build)
                pieces += segments(included, README + target[1])
            elif part:
                pieces.append(Prose(part, file, line))
            line += part.count("\n")
    return pieces


def _included(target: str, build: Build) -> str:
    """A section of a README. `| tasks`: only its tasks, each with the hints for its functions;
    `| tasks 1-8`: some of them. Its drawings stay in the README: chapters have their own.

    `| before subsections`: only what stands before its first subheading.
    `| figures a, b`: the drawings in text fences give way to these figures, one each.
    """
    place, _, option = (part.strip() for part in target.partition(" | "))
    name, _, heading = place.partition(":#")
    file = find_file(build.repo, name)
    text = section(file.read_text(encoding="utf-8"), heading, name)
    how, _, names = option.partition(" ")
    if option == "before subsections":
        text = text.partition("\n###")[0]
    elif how == "tasks":
        first, _, last = names.partition("-")
        text = _with_hints(text, place.partition("/")[0], int(first or 1), int(last or 99))
        text = re.sub(DRAWING, "", text)
    elif how == "figures":
        calls = [f"{{{{figure: {name.strip()}}}}}" for name in re.split(r",(?![^(]*\))", names)]
        parts = re.split(TEXT_FENCE, text)
        if len(parts) != len(calls) + 1:
            raise BookError(f"{place} has {len(parts) - 1} drawings to replace, not {len(calls)}")
        text = "".join(part + new for part, new in zip(parts, [*calls, ""], strict=True))
    elif option or not text.strip():
        raise BookError(f"nothing to include: {target}")
    return unlink(_inline_drawings(_open_folds(text), file.parent)) + "\n"


def _open_folds(text: str) -> str:
    """Blank lines around the text of a README's folds: without them it would not be Markdown."""
    fold = re.compile(r"(?ms)^( *)(<details><summary>[^\n]*?</summary>)(.*?)</details>")
    return fold.sub(lambda m: f"{m[1]}{m[2]}\n\n{m[1]}{m[3].strip()}\n\n{m[1]}</details>", text)


def _with_hints(text: str, prefix: str, first: int = 1, last: int = 99) -> str:
    """The `### task N` subsections from first to last, each with hints for what it asks for."""
    before, *tasks = re.split(r"(?m)^### task (\d+)$", text)
    if not tasks:
        raise BookError(f"{prefix} has no `### task 1`")
    from .labs import gaps

    out = []
    for number, body in zip(tasks[::2], tasks[1::2], strict=True):
        if not first <= int(number) <= last:
            continue
        asked = gaps(prefix, int(number), int(number))
        stretch = " (stretch)" if asked and all(gap.stretch for gap in asked) else ""
        hints = [f"{{{{hints: {prefix}:{gap.function}}}}}" for gap in asked]
        body = re.sub(r"\AStretch\. ", "", body.strip())
        out.append("\n\n".join([f"### Task {number}{stretch}", body, *hints]))
    return "\n\n".join(out)


def _inline_drawings(text: str, folder: Path) -> str:
    """A README's SVG files become figures of the page, so that they follow its theme."""

    def one(match: re.Match[str]) -> str:
        alt, name = match.groups()
        if not (folder / name).is_file() or not name.endswith(".svg"):
            raise BookError(f"no drawing {name!r} beside the README")
        svg = (folder / name).read_text(encoding="utf-8")
        svg = " ".join(svg[svg.index("<svg") :].split())
        svg = re.sub(r"<style>.*?</style>", "", svg)  # the theme has its own colours
        label = f'role="img" aria-label="{escape(" ".join(alt.split()), quote=True)}"'
        opening = re.sub(r'\s(?:role|aria-label)="[^"]*"', "", svg.partition(">")[0])
        width = re.search(r'\swidth="(\d+)"', opening)
        smallest = f' style="min-width:{width[1]}px"' if width else ""  # scrolls, not shrinks
        svg = f"{opening} {label}{smallest}>" + svg.partition(">")[2]
        return f'<figure class="lab-figure"><div class="scroll">{svg}</div></figure>'

    return re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", one, text)


def unlink(text: str) -> str:
    """A README's links to files have no target in the book: keep their text only."""
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)[^)]+\)", r"\1", text)


def _jobs(piece: Prose | Fence) -> list[Job]:
    if isinstance(piece, Fence):
        _check_fence(piece)
        run = "eval" in piece.tags[1:]
        return [Job("block", piece.body, piece.file, piece.line + 1)] if run else []
    found: list[Job] = []

    def collect(text: str, offset: int) -> str:
        for match in DIRECTIVE.finditer(text):
            line = piece.line_at(offset + match.start())
            if match[1] not in (*RUN, "fact"):
                raise BookError(f"unknown directive {match[0]!r}", piece.file, line)
            if match[1] in RUN:
                found.append(Job(match[1], match[2], piece.file, line))
        rest = DIRECTIVE.sub(_blank, text)
        if bad := re.search(r"\{\{.{0,40}", rest):
            line = piece.line_at(offset + bad.start())
            raise BookError(f"cannot read {bad[0]!r}", piece.file, line)
        typed = TYPED_NUMBER.search(NO_PROSE.sub(_blank, rest))
        if typed and not piece.file.startswith(README):
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
        if job.kind == "readme":
            return "\n".join(eval(f"[{job.source.partition(' | ')[2]}]", names))
        if job.kind == "figure":
            return names["figures"].draw(job.source)
        if job.kind == "hints":
            return str(names["hints"](job.source))
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
                value = next(results) if kind in RUN else _fact(source, build)
            if kind == "readme":
                return ""
            if "\n" not in value and kind != "figure":
                return value
            blocks.append(value)
            return f"\x00{len(blocks) - 1}\x00"

        filled = DIRECTIVE.sub(one, text)
        if piece.file.startswith(README):
            filled = re.sub(r"(?<=\d) us\b", " µs", filled)  # READMEs are read in terminals, too
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
