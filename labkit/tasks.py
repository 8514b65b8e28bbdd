"""A lab's tasks, read from its solution's markers, and the hints of its hints.md."""

import functools
import re
from dataclasses import dataclass, replace

from labkit.loading import Lab

BEGIN = r"^(?P<indent> *)# BEGIN SOLUTION(?: \(task (?P<task>\d+)(?P<stretch>, stretch)?\))? *$"
END = r"^ *# END SOLUTION *$"
# what the learner writes, with the line breaks before it
BLOCK = re.compile(rf"(?P<before>\n*){BEGIN}(?P<body>.*?){END}", re.M | re.S)
LEVELS = ("Idea", "Sketch", "Formula")


@dataclass(frozen=True)
class Task:
    """One function that the learner writes."""

    function: str
    number: int
    stretch: bool
    lines: int  # of the solution and its helpers, without comments and blank lines

    @property
    def size(self) -> str:
        """`1 line`, `7 lines`."""
        return f"{self.lines} line{'s' if self.lines != 1 else ''}"


@functools.cache
def tasks_of(lab: Lab) -> dict[str, Task]:
    """The functions that the learner writes, in the order of the file, by name."""
    path = lab.file("solution")
    if not path.exists():
        return {}
    text, found, owner = path.read_text(encoding="utf-8"), {}, ""
    for block in BLOCK.finditer(text):
        body = [line.strip() for line in block["body"].splitlines()]
        lines = sum(1 for line in body if line and not line.startswith("#"))
        if block["task"] and block["indent"]:
            owner = owner_of(block)
            found[owner] = Task(owner, int(block["task"]), bool(block["stretch"]), lines)
        elif block["task"] and owner:  # helpers, which stand behind their function
            found[owner] = replace(found[owner], lines=found[owner].lines + lines)
    return found


def owner_of(block: re.Match[str]) -> str:
    """The function in which a block of a solution lies, or "" if in none."""
    return ["", *re.findall(r"(?m)^def (\w+)", block.string[: block.start()])][-1]


def task_of_check(lab: Lab, name: str) -> Task | None:
    """The task that a check `test_<function>__<claim>` belongs to."""
    function = name.removeprefix("test_").split("__")[0]
    return tasks_of(lab).get(function)


def line_of(lab: Lab, which: str, function: str) -> int:
    """Where a function begins in the learner's file; 0 when it is not there."""
    start, lines = re.compile(rf"\s*def {re.escape(function)}\b"), _text(lab, which).splitlines()
    return next((number for number, line in enumerate(lines, 1) if start.match(line)), 0)


def is_open(lab: Lab, function: str) -> bool:
    """Whether the learner's file still holds the stub of a function, or nothing at all."""
    text = _text(lab, "starter")
    return not text or f"· {function} is yours to write" in text


def _text(lab, which):
    """What the learner's file holds; "" when it is gone."""
    try:
        return lab.file(which).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def hints_of(lab: Lab) -> dict[str, list[str]]:
    """hints.md: per function the texts of idea, sketch and formula."""
    path = lab.path / "hints.md"
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    found = {}
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        name, _, body = section.partition("\n")
        parts = re.split(r"^\*\*(?:Idea|Sketch|Formula)\.\*\*", body, flags=re.M)[1:]
        found[name.strip().strip("`")] = [part.strip() for part in parts]
    return found


def hint(lab: Lab, wanted: str) -> str:
    """What `--hint FUNCTION` (the idea), `=2` (a sketch) or `=3` (the formula) prints.

    Raises ValueError, with the choices, for another function or level.
    """
    function, _, level = wanted.partition("=")
    hints = hints_of(lab)
    if function not in hints:
        choices = ", ".join(hints) or "none yet"
        raise ValueError(f"--hint {function}: {lab.prefix} has hints for: {choices}")
    if level not in ("", "1", "2", "3"):
        raise ValueError(f"--hint {wanted}: the levels are 1 (idea), 2 (sketch), 3 (formula)")
    number = int(level or 1)
    more = f"\n\nMore: --hint {function}={number + 1}" if number < len(hints[function]) else ""
    text = hints[function][number - 1]
    begins = "\n" if text.startswith("```") else " "  # code has lines of its own
    text = re.sub(r"^```.*\n?", "", text, flags=re.M).rstrip()
    return f"{function}, {LEVELS[number - 1].lower()}:{begins}{text}{more}"
