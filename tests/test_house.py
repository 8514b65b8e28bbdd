"""Which file of a lab may import what. Packages are held by import-linter (make lint)."""

import ast
import sys

import pytest

from labkit.loading import Lab, find_labs
from tests.conftest import ROOT

LABS_HERE = find_labs(ROOT)
MACHINERY = {"grading", "labbook", "figures", "tests"}


def imported(path):
    """The top-level names that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names)


def own(lab):
    """The packages and modules that stand in the lab's folder."""
    packages = {path.parent.name for path in lab.path.glob("*/__init__.py")}
    return packages | {path.stem for path in lab.path.glob("*.py")} - {
        "solution",
        "starter",
        "test_lab",
        "mistakes",
    }


@pytest.mark.parametrize("lab", LABS_HERE, ids=lambda lab: lab.prefix)
def test_a_learners_file_knows_collectives_given_modules_and_numpy(lab):
    allowed = {"numpy", "collectives", "arguments"} | own(lab)
    for which in ("solution", "starter", "mistakes"):
        assert imported(lab.file(which)) <= allowed, which


@pytest.mark.parametrize("lab", LABS_HERE, ids=lambda lab: lab.prefix)
def test_no_file_of_a_lab_knows_an_implementation_or_another_lab(lab):
    others = set().union(*(own(other) for other in LABS_HERE if other != lab)) - own(lab)
    for path in sorted(lab.path.rglob("*.py")):
        found = imported(path)
        assert not found & (MACHINERY | {"solution", "starter", "mistakes"}), path
        assert not found & others, f"{path}: {found & others}"


def test_a_violation_is_seen(tmp_path):
    lab = tmp_path / "phase-1/labs/lab-77-x"
    lab.mkdir(parents=True)
    (lab / "solution.py").write_text(
        "def f():\n    from solution import g\n    import grading.cell\n"
    )
    assert imported(Lab(lab).file("solution")) == {"solution", "grading"}
