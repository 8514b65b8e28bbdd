"""The names a chapter's expressions may use."""

import functools
import json
import re
import sys
from pathlib import Path
from typing import Any

from .amounts import GIB, KIB, MIB, human_bytes, microseconds
from .cache import Cache

OF_LABS = (  # functions of labs.py
    "fact facts stub hints task stretch_points task_points claims extra_points tasks_table "
    "bug_hunt mistakes capture drawing log_lines bill_models gaps model models quote"
).split()


class Names(dict[str, Any]):
    """Names of a chapter; `lab01` ... and `capstone` are solutions, loaded when first named."""

    def __missing__(self, name: str) -> Any:
        found = re.fullmatch(r"(?:lab(\d\d)|capstone)", name)
        if not found:
            raise KeyError(name)
        from .labs import solution

        return self.setdefault(name, solution(f"lab-{found[1]}" if found[1] else name))


def chapter_namespace(root: Path, repo: Path, cache: Cache) -> Names:
    """Fresh names for a chapter."""
    labs_of = [*repo.glob("phase-*/labs"), *repo.glob("phase-*/labs/capstone")]
    for folder in map(str, (root, repo, *labs_of)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    import figures

    from . import guesses, labs, screens

    return Names(
        __name__="__chapter__",
        table=table,
        KIB=KIB,
        MIB=MIB,
        GIB=GIB,
        json=json,
        human_bytes=human_bytes,
        microseconds=microseconds,
        figures=figures,
        figure=figures.draw,
        guess=guesses.guess,
        choose=guesses.choose,
        **{name: getattr(labs, name) for name in OF_LABS},
        vllm=labs.quotations(),
        screen=functools.partial(screens.screen, cache=cache),
    )


def table(header: list[str], rows: list[list[Any]], align: str = "") -> str:
    """A Markdown table; align has one of l, r, c per column."""
    marks = {"l": "---", "r": "--:", "c": ":-:"}
    rule = [marks[letter] for letter in align or "l" * len(header)]
    lines: list[list[Any]] = [header, rule, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
