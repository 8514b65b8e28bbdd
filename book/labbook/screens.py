"""What a learner sees: the real output of pytest on a fresh starter and on the solution.

The command runs in a copy of the labs, so an edited starter.py here changes no page and no file of
the checkout is written.
"""

import functools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from labkit.loading import ROOT, Lab
from labkit.mistakes import load_bank
from labkit.starters import copy_course

from .cache import Cache, fingerprint
from .labs import lab
from .markdown import BookError, pick

# A laptop with numpy only: what needs Torch or vLLM is "not run here", wherever this runs.
WITHOUT_ENGINES = {"LAB_TORCH": "none", "LAB_VLLM_PYTHON": "none"}


def screen(prefix: str, which: str, *, cache: Cache, select: str = "", mistake: str = "") -> str:
    """A console block: the command and what it printed. `select` is passed to pytest's -k.

    mistake: the starter is the solution with this entry of the mistakes bank in it.
    """
    this = lab(prefix)
    parts = [ROOT / "labkit", ROOT / "conftest.py", ROOT / "pytest.ini", this.path]
    parts += sorted(this.path.parent.glob("*.py"))
    command = f"LAB_IMPL={which} pytest {prefix}" + (f" -k {select}" if select else "")
    make = functools.partial(_capture, this, which, command, select, mistake)
    return cache.get(["screen", command, mistake], make, salt=fingerprint([*parts, Path(__file__)]))


def _capture(this: Any, which: str, command: str, select: str, mistake: str) -> str:
    with tempfile.TemporaryDirectory(prefix="labbook-") as folder:
        (copy,) = copy_course(Path(folder), this)
        if mistake:
            plant(copy, mistake)
        options = ["-p", "no:cacheprovider", "-p", "no:xdist"]
        options += ["-k", select] if select else []
        done = subprocess.run(
            [sys.executable, "-m", "pytest", this.prefix, *options],
            cwd=folder,
            env=clean_environment(LAB_IMPL=which, **WITHOUT_ENGINES),
            capture_output=True,
            text=True,
            timeout=300,
        )
    expected = {0} if which == "solution" else {0, 1}
    if done.returncode not in expected:
        raise BookError(f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    shown = tidy(done.stdout, folder)
    return f"```console\n$ {command}\n{shown}\n```"


def plant(copy: Lab, mistake: str) -> None:
    """Make the copy's starter the solution, with one function replaced by a banked mistake."""
    wrong = pick({one.name: one for one in load_bank(copy).mistakes}, mistake, "mistake")
    solution, starter = copy.file("solution").read_text(encoding="utf-8"), copy.file("starter")
    header = starter.read_text(encoding="utf-8").partition("\n")[0]  # so that its lines count alike
    starter.write_text(f"{header}\n{solution}\n\n{wrong.source}\n", encoding="utf-8")


def clean_environment(**extra: str) -> dict[str, str]:
    """Ours without what would change pytest's output, and without bytecode files."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LAB_", "COV_"))}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80", "NO_COLOR": "1"} | extra


def tidy(text: str, folder: str) -> str:
    """Without trailing blanks, times and the copy's path, so that two builds are equal."""
    text = text.replace(f"{folder}{os.sep}", "").replace(folder, ".")
    text = re.sub(r" in \d+(\.\d+)?s(?: \([\d:]+\))?", "", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
