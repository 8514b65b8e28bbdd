"""Derive each lab's starter.py from its solution.py.

Between `# BEGIN SOLUTION (task N)` and `# END SOLUTION` lies what the learner writes. Inside a
function the block becomes one `raise NotImplementedError(...)`; at module level (a private helper
of the solution) it is removed. Everything else is kept to the letter, comments included.

`python -m labkit.starters` writes the starters, each README's table of tasks and points, and the
screen of the first README; `--force` overwrites a starter that somebody has edited, which is
otherwise kept.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from labkit.claims import points_of_tasks
from labkit.loading import ROOT, Lab, choose_lab, find_labs
from labkit.mistakes import load_bank
from labkit.tasks import BEGIN, BLOCK, END, owner_of, tasks_of

TASKS = re.compile(r"(<!-- tasks -->).*?(<!-- /tasks -->)", re.S)
SCREEN = re.compile(r"(<!-- screen (\S+) (\w+) -->).*?(<!-- /screen -->)", re.S)
HEADER = re.compile(r"\A# ([\w-]+) starter: .* \[([0-9a-f]{12})\]\n")


def derive(lab: Lab) -> str:
    """The text of the lab's starter. Raises ValueError on unbalanced or misplaced markers."""
    text, where = lab.file("solution").read_text(encoding="utf-8"), f"{lab.name}/solution.py"
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(BEGIN, line):
            if inside:
                raise ValueError(f"{where} line {number}: BEGIN SOLUTION inside a solution")
            inside = True
        elif re.match(END, line):
            if not inside:
                raise ValueError(f"{where} line {number}: END SOLUTION without a beginning")
            inside = False
    if inside:
        raise ValueError(f"{where}: the last BEGIN SOLUTION has no end")
    body = BLOCK.sub(lambda block: _todo(lab, block), text).rstrip("\n") + "\n"
    if "NotImplementedError" not in body:
        raise ValueError(f"{where}: no BEGIN SOLUTION inside a function")
    return (
        f"# {lab.prefix} starter: write where NotImplementedError stands. [{_digest(body)}]\n{body}"
    )


def _todo(lab, block):
    """What stands in the place of a solution; nothing in that of a helper at module level."""
    before, indent, function = block["before"], block["indent"], owner_of(block)
    if not indent:
        return ""
    if not function or not block["task"]:
        raise ValueError(
            f"{lab.name}/solution.py: a solution of {function} needs its task: (task N)"
        )
    return (
        f"{before}{indent}raise NotImplementedError(\n"
        f'{indent}    "{lab.prefix} · {function} is yours to write '
        f'(about {tasks_of(lab)[function].size}). "\n'
        f'{indent}    "The book (make book) says more: {lab.prefix}, task {block["task"]}"\n'
        f"{indent})"
    )


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


def plant(copy: Lab, code: str) -> None:
    """Make the starter of a copy the solution, with the functions that `code` defines anew."""
    solution, starter = copy.file("solution").read_text(encoding="utf-8"), copy.file("starter")
    header = starter.read_text(encoding="utf-8").partition("\n")[0]  # so that its lines count alike
    starter.write_text(f"{header}\n{solution}\n\n{code}\n", encoding="utf-8")


def failure_shown(lab: Lab, mistake: str) -> str:
    """What pytest prints of the task of a known mistake, up to its hint."""
    code = next(one.source for one in load_bank(lab).mistakes if one.name == mistake)
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        (copy,) = copy_course(Path(folder), lab)
        plant(copy, code)
        command = [sys.executable, "-m", "pytest", lab.prefix, "-k", mistake.split("__")[0]]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LAB_"))}
        clean |= {"LAB_IMPL": "starter", "COLUMNS": "80", "NO_COLOR": "1"}
        done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True)
    shown = done.stdout[done.stdout.index("  task ") :]
    return re.split(r"(?m)^ +(?:passed|waits|todo) ", shown)[0].rstrip()


def first_readme(root: Path = ROOT) -> tuple[str, str]:
    """The root's README as it is, and with its screen as pytest prints it."""
    text = (root / "README.md").read_text(encoding="utf-8")

    def screen(found):
        lab = choose_lab(found[2], find_labs(root))
        return f"{found[1]}\n```text\n{failure_shown(lab, found[3])}\n```\n{found[4]}"

    return text, SCREEN.sub(screen, text)


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
    old, new = first_readme()
    if old != new:
        (ROOT / "README.md").write_text(new, encoding="utf-8")
        print("README.md: its screen is written")
    return status


if __name__ == "__main__":
    sys.exit(main())
