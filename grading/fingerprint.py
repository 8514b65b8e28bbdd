"""What a grade depends on besides the submission: tests, solution, labkit, this tool, packages."""

import hashlib
import platform
import sys
from functools import cache
from pathlib import Path

import numpy
import pytest

from labkit.loading import ROOT, Lab, find_labs


@cache
def labs_by_prefix() -> dict[str, Lab]:
    """lab-01 -> Lab."""
    return {lab.prefix: lab for lab in find_labs()}


@cache
def tests_digest(lab: Lab) -> str:
    """The hash of the lab's tests, all that they may execute or read, collectives.py and labkit."""
    digest = hashlib.sha256()
    suffixes = (".py", ".json", ".jsonl", ".txt", ".log")
    own = [path for path in lab.path.rglob("*") if path.suffix in suffixes]
    own = [path for path in own if path != lab.file("starter")]
    shared = [lab.path.parent / "collectives.py", *(ROOT / "labkit").rglob("*.py")]
    for path in sorted(path for path in own + shared if path.is_file()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}:{len(data)}:".encode() + data)
    return digest.hexdigest()


@cache
def environment() -> dict[str, str]:
    """Versions of everything a result may depend on, and the hash of this tool."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "pytest": pytest.__version__,
        "machine": f"{sys.platform} {platform.machine()}",
        "grader": digest.hexdigest()[:16],
    }


def course_of(prefix):
    """What must be the same on a worker for its grades to count."""
    lab = labs_by_prefix().get(prefix)
    return (tests_digest(lab), environment()) if lab else None
