"""Derive each lab's starter.py from its solution.py.

Between `# BEGIN SOLUTION (task N)` and `# END SOLUTION` lies what the learner writes. Inside a
function the block becomes one `raise NotImplementedError(...)`; at module level (a private helper
of the solution) it is removed. Everything else is kept to the letter, comments included.

`python -m labkit.starters` writes the starters, and each README's table of tasks and points;
`--force` overwrites a starter that somebody has edited, which is otherwise kept.
"""

import argparse
import hashlib
import re
import shutil
import sys
from pathlib import Path

from labkit.claims import points_of_tasks
from labkit.loading import ROOT, Lab, find_labs
from labkit.tasks import BEGIN, DEF, END, tasks_of

TASKS = re.compile(r"(<!-- tasks -->).*?(<!-- /tasks -->)", re.S)
HEADER = re.compile(r"\A# ([\w-]+) starter: .* \[([0-9a-f]{12})\]\n")


def derive(lab: Lab) -> str:
    """The text of the lab's starter. Raises ValueError on unbalanced or misplaced markers."""
    source = lab.file("solution").read_text(encoding="utf-8").splitlines()
    lines, block, defs = [], None, []
    for number, line in enumerate(source, start=1):
        where = f"{lab.name}/solution.py line {number}"
        if begin := BEGIN.match(line):
            if block is not None:
                raise ValueError(f"{where}: BEGIN SOLUTION inside a solution")
            block, indent, task = [], begin[1], begin[2]
        elif END.match(line):
            if block is None:
                raise ValueError(f"{where}: END SOLUTION without a beginning")
            if indent:
                lines += _todo(lab, indent, defs, task, where)
            else:
                while lines and not lines[-1]:
                    lines.pop()  # the blank lines before a removed helper go with it
            block = None
        elif block is not None:
            block.append(line)
        else:
            if found := DEF.match(line):
                defs = [d for d in defs if len(d[0]) < len(found[1])] + [(found[1], found[2])]
            lines.append(line)
    if block is not None:
        raise ValueError(f"{lab.name}/solution.py: the last BEGIN SOLUTION has no end")
    body = "\n".join(lines).rstrip("\n") + "\n"
    if "NotImplementedError" not in body:
        raise ValueError(f"{lab.name}/solution.py: no BEGIN SOLUTION inside a function")
    return (
        f"# {lab.prefix} starter: write where NotImplementedError stands. [{_digest(body)}]\n{body}"
    )


def _todo(lab, indent, defs, task, where):
    owners = [name for spaces, name in defs if len(spaces) < len(indent)]
    if not owners or task is None:
        raise ValueError(f"{where}: a solution in a function needs its task: (task N)")
    size = tasks_of(lab)[owners[0]].size
    return [
        f"{indent}raise NotImplementedError(",
        f'{indent}    "{lab.prefix} · {owners[0]} is yours to write (about {size}). "',
        f'{indent}    "Chapter: README.md, task {task}"',
        f"{indent})",
    ]


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:12]


def is_edited(text: str) -> bool:
    """Whether a person has changed this starter since it was derived."""
    header = HEADER.match(text)
    return not header or _digest(text[header.end() :]) != header[2]


def write(lab: Lab, force: bool = False) -> str:
    """Bring the lab's starter up to date: 'written', 'current', or 'kept: edited by you'."""
    path, text = lab.file("starter"), derive(lab)
    if path.exists():
        standing = path.read_text(encoding="utf-8")
        if standing == text:
            return "current"
        if is_edited(standing) and not force:
            return "kept: you have edited it (--force overwrites it)"
    path.write_text(text, encoding="utf-8")
    return "written"


def copy_course(folder: Path, *labs: Lab) -> list[Lab]:
    """A copy, under `folder`, of these labs and of what grades them; its starters are fresh."""
    for name in ("conftest.py", "pytest.ini"):
        shutil.copy(ROOT / name, folder / name)
    # with its bytecode, which spares a run of pytest in the copy half of its time
    shutil.copytree(ROOT / "labkit", folder / "labkit")
    copies = [Lab(folder / lab.path.relative_to(ROOT)) for lab in labs]
    for lab, copy in zip(labs, copies, strict=True):
        shutil.copytree(lab.path, copy.path)
        for shared in lab.path.parent.glob("*.py"):
            shutil.copy(shared, copy.path.parent)
        copy.file("starter").write_text(derive(copy), encoding="utf-8")
    return copies


def task_table(lab: Lab) -> str:
    """The table of tasks that stands in the lab's README between its two comments."""
    points, rows = points_of_tasks(lab), []
    for task in tasks_of(lab).values():
        stretch = " (stretch)" if task.stretch else ""
        rows.append(
            f"| {task.number}{stretch} | `{task.function}` | {task.size} "
            f"| {points[task.function]} |"
        )
    head = ["| task | you write | about | points |", "|--:|---|--:|--:|"]
    return "\n".join([*head, *rows])


def readme(lab: Lab) -> tuple[str, str]:
    """The lab's README as it is, and with its table of tasks brought up to date."""
    path = lab.path / "README.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    table = lambda found: f"{found[1]}\n{task_table(lab)}\n{found[2]}"  # noqa: E731
    return text, TASKS.sub(table, text, count=1)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m labkit.starters", description=__doc__)
    parser.add_argument("--force", action="store_true", help="overwrite edited starters too")
    options = parser.parse_args(arguments)
    status = 0
    for lab in find_labs():
        try:
            old, new = readme(lab)
            word = write(lab, options.force)
            if old != new:
                (lab.path / "README.md").write_text(new, encoding="utf-8")
        except ValueError as error:
            word, status = str(error), 1
        print(f"{lab.name}/starter.py: {word}")
    return status


if __name__ == "__main__":
    sys.exit(main())
