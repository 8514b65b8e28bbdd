"""Five questions about a student's own program, to be answered in person, with a key.

questions.md has their numbers and words. They are drawn from the gradebook's secret and the
student's name, and no two students' are alike. A question is asked of a function that the student
wrote, whose lines are printed below it.
"""

import ast
import random
import re
import textwrap
from functools import cache
from html import escape
from pathlib import Path

import numpy as np

from grading.gradebook import Gradebook, entry_of, labs
from grading.pages import html, page
from grading.similar import functions
from grading.text import clean
from labkit.loading import load_module

QUESTIONS = 5
MOST_LINES = 16  # of the student's own that are printed
SECTION = r"(?ms)^## (\S+) (\w+)\n```python\n(.*?)```\n(.*?)\n\nKey: (.*?)\s*(?=^## |\Z)"
UNITS = {  # of a number, as the questions write it
    "s": lambda x: f"{x * 1e6:.4g} us" if x < 1e-3 else f"{x * 1e3:.4g} ms",
    "B": lambda x: f"{x / 1e9:.4g} GB" if x >= 1e8 else f"{x / 1e6:.4g} MB",
    "rate": lambda x: f"{x / 1e12:.3g} TB/s" if x >= 1e12 else f"{x / 1e9:.4g} GB/s",
}


@cache
def questions() -> dict[tuple[str, str], tuple[str, str, str]]:
    """(lab, function) -> (what draws its numbers, question, key), as questions.md has them."""
    text = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    return {(lab, function): tuple(rest) for lab, function, *rest in re.findall(SECTION, text)}


def asked(lab, function, draw, solution) -> tuple[str, str]:
    """(question, key) with numbers drawn."""
    numbers, *texts = questions()[lab, function]
    while True:
        drawn = {name: getattr(draw, name) for name in ("choice", "randint", "sample", "uniform")}
        known = UNITS | drawn | {"np": np, "lab": solution}
        try:
            exec(numbers, known)
        except AssertionError:
            continue
        return tuple(eval(f'f"""{text}"""', known) for text in texts)


def sheets(book: Gradebook, table) -> dict[str, list[dict]]:
    """student -> their questions: {"lab", "function", "text", "key", "lines"}.

    Everybody's are drawn, in order, so that no two students are asked the same.
    """
    load = cache(lambda prefix: load_module(labs()[prefix].file("solution")))
    seen, found = set(), {}
    for student, row in table.items():
        draw = random.Random(f"{book.secret()}|{student}")
        found[student] = []
        for prefix, function, lines in _wanted(book, student, row, draw):
            tries = (asked(prefix, function, draw, load(prefix)) for _ in range(1000))
            text, key = next((one for one in tries if one[0] not in seen), (None, None))
            if text and len(found[student]) < QUESTIONS:
                seen.add(text)
                one = {"lab": prefix, "function": function, "text": text, "key": key}
                found[student].append(one | {"lines": lines})
    return found


def _wanted(book, student, row, draw):
    """(lab, function, the student's lines) of what to ask, of every lab in turn."""
    ready = []
    for prefix, record in row.items():
        path = book.source(student, prefix)
        own = own_lines(path.read_bytes()) if path.exists() else {}
        good = {c["function"] for c in entry_of(record)["claims"] if c["outcome"] == "passed"}
        those = [name for lab, name in questions() if lab == prefix and name in own]
        draw.shuffle(those)
        those.sort(key=lambda name: name not in good)  # what earned points first
        ready += [(n, draw.random(), prefix, name, own[name]) for n, name in enumerate(those)]
    return [one[2:] for one in sorted(ready)]


def own_lines(source: bytes) -> dict[str, list[str]]:
    """The numbered lines of each function that the student wrote, without its docstring."""
    text, found = re.split("\r\n|\r|\n", source.decode("utf-8-sig", "replace")), {}
    for name, node in functions(source).items():
        body = node.body[1:] if ast.get_docstring(node) else node.body
        if not body or isinstance(body[0], ast.Raise):
            continue  # still the starter's
        lines = [node.lineno, *range(body[0].lineno, body[-1].end_lineno + 1)]
        shown = [f"{n:4}  {_code(text[n - 1])}" for n in lines[: MOST_LINES + 1] if n <= len(text)]
        found[name] = shown + ["      ..."] * (len(lines) > len(shown))
    return found


def _code(line):
    """A line of a program with its indentation; nothing in it acts on a terminal."""
    return " " * (len(line) - len(line.lstrip(" "))) + clean(line, 120)


def as_text(student, sheet) -> str:
    """What the terminal shows: the questions, then the key."""
    if not sheet:
        return f"{student}: there is no function of their own to ask about."
    wrapped = lambda text: textwrap.fill(text, 96, subsequent_indent="   ")  # noqa: E731
    parts = [student]
    for n, one in enumerate(sheet, 1):
        own = "\n".join("   " + line for line in one["lines"])
        parts.append(wrapped(f"{n}. {one['lab']}, {one['function']}. {one['text']}") + "\n" + own)
    keys = [wrapped(f"{n}. {one['key']}") for n, one in enumerate(sheet, 1)]
    return "\n\n".join([*parts, "Key", *keys])


def as_page(student, sheet) -> str:
    """One printable page of questions, and one with the key."""
    items = []
    for one in sheet:
        own = escape("\n".join(one["lines"]))
        said = f"<strong>{html(one['lab'])}, {html(one['function'])}.</strong> {html(one['text'])}"
        items.append(f"<li>{said}<pre>{own}</pre></li>\n")
    keys = "".join(f"<li>{html(one['key'])}</li>\n" for one in sheet)
    return page(
        f"Questions: {student}",
        f'<div class="sheet"><h1>{html(student)}</h1>\n<ol>\n{"".join(items)}</ol></div>\n',
        f"<h1>Key: {html(student)}</h1>\n<ol>\n{keys}</ol>\n",
    )
