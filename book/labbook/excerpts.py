"""Files of the repository."""

import re
from pathlib import Path

from .markdown import BookError


def find_file(repo: Path, name: str) -> Path:
    """A file of the repository; `lab-03/x` and `capstone/x` mean that lab's folder."""
    head, _, rest = name.partition("/")
    candidates = [repo / name]
    if re.fullmatch(r"lab-\d\d|capstone", head):
        candidates = [p / rest for p in repo.glob(f"phase-*/labs/{head}*")]
    found = [p for p in candidates if p.is_file()]
    if len(found) != 1:
        raise BookError(f"no single file {name!r} in the repository ({len(found)} found)")
    return found[0]
