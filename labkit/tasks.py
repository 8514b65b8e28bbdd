"""A lab's tasks, read from its solution's markers, and the hints of its hints.md."""

import functools
import re
from dataclasses import dataclass, replace

from labkit.loading import Lab

BEGIN = re.compile(r"^(\s*)# BEGIN SOLUTION(?: \(task (\d+)(, stretch)?\))?\s*$")
END = re.compile(r"^\s*# END SOLUTION\s*$")
DEF = re.compile(r"^(\s*)def (\w+)")
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
    found, defs, mark, block, owner = {}, [], None, [], None
    for line in path.read_text(encoding="utf-8").splitlines():
        if begin := BEGIN.match(line):
            mark, block = begin, []
        elif END.match(line):
            if mark and mark[2]:
                lines = sum(1 for one in block if one.strip() and not one.strip().startswith("#"))
                owners = [name for spaces, name in defs if len(spaces) < len(mark[1])]
                if owners:
                    owner = owners[0]
                    found[owner] = Task(owner, int(mark[2]), bool(mark[3]), lines)
                elif owner and not mark[1]:  # helpers, which stand behind their function
                    found[owner] = replace(found[owner], lines=found[owner].lines + lines)
            mark = None
        elif mark:
            block.append(line)
        elif defined := DEF.match(line):
            indent = len(defined[1])
            defs = [d for d in defs if len(d[0]) < indent] + [(defined[1], defined[2])]
    return found


def task_of_check(lab: Lab, name: str) -> Task | None:
    """The task that a check `test_<function>__<claim>` belongs to."""
    function = name.removeprefix("test_").split("__")[0]
    return tasks_of(lab).get(function)


def line_of(lab: Lab, which: str, function: str) -> int:
    """Where a function begins in the learner's file; 0 when it is not there."""
    try:
        lines = lab.file(which).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return 0
    start = re.compile(rf"\s*def {re.escape(function)}\b")
    return next((number for number, line in enumerate(lines, 1) if start.match(line)), 0)


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
    return f"{function}, {LEVELS[number - 1].lower()}: {hints[function][number - 1]}{more}"
