"""What chapters say about the labs, read from the labs: claims, tasks, stubs, mistakes, facts."""

import ast
import functools
import json
import re
import textwrap
import types
from html import escape
from pathlib import Path
from typing import Any

from labkit.claims import Claim, claims_in, points_of_tasks, shown
from labkit.loading import ROOT, Lab, LoadError, choose_lab, find_labs, load_module
from labkit.mistakes import read_bank
from labkit.starters import derive
from labkit.tasks import Task, hints_of, tasks_of

from .markdown import BookError, pick, table


def lab(prefix: str) -> Lab:
    """`lab-03` -> the Lab; BookError when there is no such lab yet."""
    try:
        return choose_lab(prefix, find_labs())
    except ValueError as error:
        raise BookError(str(error)) from None


@functools.cache
def solution(prefix: str) -> types.ModuleType:
    """The solution of `lab-03`, loaded once per build."""
    try:
        return load_module(lab(prefix).file("solution"))
    except LoadError as error:
        raise BookError(str(error)) from None


# --- what the tests prove ---------------------------------------------------------------------


def claims(prefix: str) -> list[Claim]:
    """The graded checks of test_lab.py in order."""
    return claims_in(lab(prefix))


# --- what the learner writes ------------------------------------------------------------------


def gaps(prefix: str, first: int = 1, last: int = 99) -> list[Task]:
    """The functions that the learner writes for the tasks first to last."""
    return [task for task in tasks_of(lab(prefix)).values() if first <= task.number <= last]


def task_points(prefix: str, first: int = 1, last: int = 99) -> int:
    """The points of the tasks first to last."""
    points = points_of_tasks(lab(prefix))
    return sum(points[gap.function] for gap in gaps(prefix, first, last))


def does(prefix: str, function: str) -> str:
    """The first sentence of a function's docstring."""
    doc = getattr(solution(prefix), function).__doc__ or ""
    return re.split(r"(?<=\.)\s", " ".join(doc.split()))[0]


def tasks_table(prefix: str, first: int = 1, last: int = 99) -> str:
    """A table: task, function and size of its gap, what it does; of the tasks first to last."""
    rows, points = [], points_of_tasks(lab(prefix))
    for gap in gaps(prefix, first, last):
        stretch = ", stretch" if gap.stretch else ""
        told = _cell(does(prefix, gap.function))
        what = f"`{gap.function}`, {gap.size}{stretch}.<br>{told}"
        rows.append([gap.number, what, points[gap.function]])
    return table(["task", "function, and the size of its gap", "points"], rows, "rlr")


def stub(target: str) -> str:
    """`lab-01:row_parallel` -> the function as the starter gives it, in a fence."""
    prefix, _, name = target.partition(":")
    text = derive(lab(prefix.strip()))
    functions = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    found = ast.get_source_segment(text, pick(functions, name.strip(), "function"))
    return f"```python\n{found}\n```"


def hints(target: str) -> str:
    """`lab-01:3` -> for each function of task 3 its idea, sketch and formula, one fold in another.

    `lab-01:row_parallel` -> those of one function.
    """
    prefix, _, name = (part.strip() for part in target.partition(":"))
    known = hints_of(lab(prefix))
    names = (
        [gap.function for gap in gaps(prefix, int(name), int(name))] if name.isdigit() else [name]
    )
    if not names:
        raise BookError(f"{prefix} has no task {name}")
    return "\n".join(_folds(name, pick(known, name, f"hints of {prefix} for")) for name in names)


def task(target: str) -> str:
    """`lab-04:3` -> a place to write task 3 in and have it graded, and its hints.

    `lab-04` -> what is said of these places once, and one for all tasks. Without the script, and
    in a book that was built without Python for its pages, there stands how a terminal does it.
    """
    prefix, _, number = (part.strip() for part in target.partition(":"))
    select = f" --task {number}" if number else ""
    name = f'lab="{prefix}"' + (f' task="{number}"' if number else "")
    told = f"In a terminal: <code>LAB_IMPL=starter pytest {prefix}{select}</code>"
    return f"<lab-task {name}>\n<p>{told}</p>\n</lab-task>\n\n" + (hints(target) if number else "")


def _folds(name: str, texts: list[str]) -> str:
    titles, shown = (
        (f"Stuck on <code>{name}</code>? The idea", "A sketch", "The formula, and its code"),
        "",
    )
    for title, text in reversed([*zip(titles, texts, strict=True)]):
        shown = f'<details class="hint"><summary>{title}</summary>\n\n{text}\n\n{shown}</details>\n'
    return shown


def _cell(text: str) -> str:
    """Text that Markdown tables and emphasis leave alone; code spans stay as they are."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([\\*_|<>\[\]$])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


# --- the mistakes bank ------------------------------------------------------------------------


def mistakes(prefix: str) -> dict[str, Any]:
    """The known mistakes of a lab, by name."""
    return {mistake.name: mistake for mistake in read_bank(lab(prefix)).mistakes}


def bug_hunt(prefix: str, *names: str) -> str:
    """Wrong implementations, folded since each is nearly the solution, with their explanations."""
    known, texts = mistakes(prefix), {claim.name: claim.text for claim in claims(prefix)}
    out = []
    for name in names:
        mistake = pick(known, name, f"mistake of {prefix}")
        doc = ast.parse(mistake.source).body[0].body[0]  # type: ignore[attr-defined]
        lines = mistake.source.splitlines()
        code = "\n".join(
            line
            for line in lines[: doc.lineno - 1] + lines[doc.end_lineno :]
            if not line.lstrip().startswith("#")
        )
        caught = " and ".join(
            f"“{shown(texts.get(test, test), True)}”" for test in mistake.rejected_by
        )
        out.append(
            f"<details><summary>A wrong <code>{mistake.replaces}</code>, for when yours is written"
            f"</summary>\n\n```python\n{code}\n```\n\n"
            "<details><summary>What is wrong?</summary>\n\n"
            f"You get this result when {_cell(mistake.when)}. {_cell(mistake.why)}\n\n"
            f"Rejected by the check {_cell(caught)}.\n\n</details>\n\n</details>\n"
        )
    return "\n".join(out)


# --- published measurements and recorded runs -------------------------------------------------


@functools.cache
def facts() -> dict[str, dict[str, Any]]:
    """Every published measurement of the labs' *.jsonl files, by id."""
    found = {}
    for file in sorted(ROOT.glob("phase-*/labs/lab-*/**/*measurements*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            found[record["id"]] = record
    return found


def fact(key: str) -> Any:
    """The value of one published measurement, in its own unit."""
    return pick(facts(), key, "measurement")["value"]


def find_file(name: str) -> Path:
    """A file of the repository; `lab-03/x` and `capstone/x` mean that lab's folder."""
    head, _, rest = name.partition("/")
    candidates = [ROOT / name]
    if re.fullmatch(r"lab-\d\d|capstone", head):
        candidates = [p / rest for p in ROOT.glob(f"phase-*/labs/{head}*")]
    found = [p for p in candidates if p.is_file()]
    if len(found) != 1:
        raise BookError(f"no single file {name!r} in the repository ({len(found)} found)")
    return found[0]


def drawing(target: str) -> str:
    """`lab-04/x.svg | a` -> a lab's SVG file as a figure of the page, in the page's theme."""
    name, _, alt = (part.strip() for part in target.partition(" | "))
    svg = capture(name)
    svg = " ".join(svg[svg.index("<svg") :].split())
    svg = re.sub(r"<style>.*?</style>", "", svg)  # the theme has its own colours
    label = f'role="img" aria-label="{escape(" ".join(alt.split()), quote=True)}"'
    opening = re.sub(r'\s(?:role|aria-label)="[^"]*"', "", svg.partition(">")[0])
    svg = f"{opening} {label}>" + svg.partition(">")[2]
    return f'<figure class="lab-figure">{svg}</figure>'


def capture(target: str) -> Any:
    """`lab-02/captures/x/y.json` -> its content, or the text of any other file."""
    path = find_file(target)
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else text


def quote(key: str) -> str:
    """A short quotation of vLLM with its source and licence (book/quotes/vllm.json)."""
    book = quotations()
    found = pick(book["quotes"], key, "quotation")
    first, last = found["lines"]
    where = f"vllm/{found['file']}, {found['symbol']}, lines {first}–{last}"
    text = textwrap.dedent(found["text"])
    note = f"{book['project']} {book['version']}, {book['licence']}"
    return f'<p class="listing">{where} ({note})</p>\n\n```python\n{text}\n```'


@functools.cache
def quotations() -> dict[str, Any]:
    return json.loads((ROOT / "book" / "quotes" / "vllm.json").read_text(encoding="utf-8"))


@functools.cache
def model(name: str) -> dict[str, Any]:
    """The shape of a model, by lab 02's rules, from its recorded config.json."""
    return solution("lab-02").model_shape(capture(f"lab-02/configs/{name}.json"))


def proper_name(name: str) -> str:
    """`qwen2.5-72b` -> Qwen2.5-72B: as those spell it who published the model."""
    source = capture(f"capstone/models/{name}.json")["_source"]
    found = re.search(re.escape(name), source, re.I)
    return found[0] if found else name


def models() -> dict[str, dict[str, Any]]:
    """Every recorded config that is a plain dense model, by name."""
    special = ("opt", "num_experts", "tied", "qk_norm", "qkv_bias", "mlp_bias")
    files = sorted((lab("lab-02").path / "configs").glob("*.json"))
    shapes = {file.stem: model(file.stem) for file in files}
    return {name: s for name, s in shapes.items() if not any(s[key] for key in special)}


def extra_points(prefix: str) -> int:
    """Points of the claims that need Torch, vLLM or GPUs."""
    needs = {"gpu", "vllm", "torch"}
    return sum(claim.points for claim in claims(prefix) if needs & set(claim.marks))


def stretch_points(prefix: str) -> int:
    """Points of the functions that are marked as a stretch."""
    points = points_of_tasks(lab(prefix))
    return sum(points[gap.function] for gap in gaps(prefix) if gap.stretch)


@functools.cache
def read_bytes(name: str) -> int:
    """Bytes of weights that a token reads: all but the input embedding, of which it needs a row."""
    shape = model(name)
    embedding = shape["vocab_size"] * shape["hidden_size"] * shape["dtype_bytes"]
    return solution("lab-02").rank_weights(shape, 1)["parameters_bytes"] - embedding


def bill_models() -> dict[str, dict[str, Any]]:
    """What the communication bill needs of each recorded model, weights in its own element type."""
    found = {}
    for name in ("llama-3.1-8b", "qwen3-32b", "qwen2.5-72b"):
        shape = model(name)
        found[name] = {
            "weight_bytes": read_bytes(name),
            "num_layers": shape["num_layers"],
            "hidden_size": shape["hidden_size"],
            "element_bytes": shape["dtype_bytes"],
        }
    return found


def log_lines(target: str, *patterns: str) -> str:
    """The first line of a captured log that matches each pattern, without its time, folded."""
    found = []
    lines = capture(target).splitlines()
    for pattern in patterns:
        line = next((line for line in lines if re.search(pattern, line)), None)
        if line is None:
            raise BookError(f"{target} has no line like {pattern!r}")
        line = re.sub(r"(INFO|WARNING) [\d-]+ [\d:]+ ", r"\1 ", line)
        found += textwrap.wrap(line, 96, subsequent_indent="      ", break_on_hyphens=False)
    text = "\n".join(found)
    return f'<p class="listing">{target}, long lines folded</p>\n\n```text\n{text}\n```'
