"""The names a chapter's expressions may use."""

import functools
import re
import sys
from pathlib import Path
from typing import Any

from . import amounts, guesses, labs, screens
from .cache import Cache


class Names(dict[str, Any]):
    """Names of a chapter; `lab01` ... and `capstone` are solutions, loaded when first named."""

    def __missing__(self, name: str) -> Any:
        found = re.fullmatch(r"(?:lab(\d\d)|capstone)", name)
        if not found:
            raise KeyError(name)
        return self.setdefault(name, labs.solution(f"lab-{found[1]}" if found[1] else name))


def chapter_namespace(root: Path, repo: Path, cache: Cache) -> Names:
    """Fresh names for a chapter: what amounts.py, guesses.py and labs.py have, and a few more."""
    for folder in map(str, (root, repo, *repo.glob("phase-*/labs"))):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    sys.path += [str(folder) for folder in repo.glob("phase-*/labs/capstone")]  # the planner's
    import figures

    return Names(
        vars(amounts) | vars(guesses) | vars(labs),
        __name__="__chapter__",
        figures=figures,
        figure=figures.draw,
        vllm=labs.quotations(),
        screen=functools.partial(screens.screen, cache=cache),
    )
