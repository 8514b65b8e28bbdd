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
import textwrap
from pathlib import Path
from typing import Any

from labkit.loading import ROOT
from labkit.starters import copy_course, plant

from .cache import Cache, fingerprint
from .labs import lab, mistakes
from .markdown import BookError, pick

# A laptop with numpy only: what needs Torch or vLLM is "not run here", wherever this runs.
WITHOUT_ENGINES = {"LAB_TORCH": "none", "LAB_VLLM_PYTHON": "none"}


def screen(
    prefix: str, which: str, *, cache: Cache, select: str = "", mistake: str = "", lines: str = ""
) -> str:
    """A console block: the command and what it printed. select: for pytest's -k, or options.

    mistake: the starter is the solution with this entry of the mistakes bank in it.
    lines: the first gap of a fresh starter is filled with these.
    """
    this = lab(prefix)
    parts = [ROOT / "labkit", ROOT / "conftest.py", ROOT / "pytest.ini", this.path]
    parts += sorted(this.path.parent.glob("*.py"))
    select = f"-k {select}" if select and not select.startswith("-") else select
    # as a learner types it, who has said `export LAB_IMPL=starter`
    whose = "" if which == "starter" else f"LAB_IMPL={which} "
    command = f"{whose}pytest {prefix} {select}".rstrip()
    make = functools.partial(_capture, this, which, command, select, mistake, lines)
    return cache.get(
        ["screen", command, mistake, lines], make, salt=fingerprint([*parts, Path(__file__)])
    )


def _capture(this: Any, which: str, command: str, select: str, mistake: str, lines: str) -> str:
    with tempfile.TemporaryDirectory(prefix="labbook-") as folder:
        (copy,) = copy_course(Path(folder), this)
        if mistake:
            plant(copy, pick(mistakes(this.prefix), mistake, "mistake").source)
        if lines:
            fill_first_gap(copy.file("starter"), lines)
        options = ["-p", "no:cacheprovider", "-p", "no:xdist", *select.split()]
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


def fill_first_gap(starter: Path, lines: str) -> None:
    """Put these lines, as the page prints them, in the place of the first NotImplementedError."""
    text = starter.read_text(encoding="utf-8")
    body = textwrap.indent(lines.strip("\n"), "    ")
    gap = re.compile(r"^    raise NotImplementedError\(\n.*?^    \)", re.M | re.S)
    starter.write_text(gap.sub(lambda _: body, text, count=1), encoding="utf-8")


def clean_environment(**extra: str) -> dict[str, str]:
    """Ours without what would change pytest's output, and without bytecode files."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LAB_", "COV_"))}
    return kept | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80", "NO_COLOR": "1"} | extra


def tidy(text: str, folder: str) -> str:
    """Without trailing blanks, times and the copy's path, so that two builds are equal."""
    text = text.replace(f"{folder}{os.sep}", "").replace(folder, ".")
    text = re.sub(r" in \d+(\.\d+)?s(?: \([\d:]+\))?", "", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))
