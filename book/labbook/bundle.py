"""What a page needs to grade a lab by itself: Python, pytest, labkit and the labs, as scripts.

They are scripts, since a page that was opened from a folder may load nothing else. No page loads
them before its reader asks. Written into src/python, which mdBook copies; git does not keep them.
"""

import ast
import base64
import importlib.metadata
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labkit.loading import Lab, choose_lab, find_labs
from labkit.starters import derive
from labkit.tasks import tasks_of

from .cache import write

LABS = ("lab-02", "lab-03", "lab-04", "lab-06")
# what place.py asks and reads: labs 01 and 05 by their solutions
PLANNER = ("capstone/*.py", "capstone/*.json*", "capstone/planner/*.py", "capstone/models/*.json")
PLANNER += ("lab-01-*/*.py", "lab-05-*/*.py")
SUFFIXES = {".py", ".json", ".jsonl", ".md", ".log", ".txt"}
# pytest colours by pygments, and imports it: its few modules that are imported, of hundreds
PYGMENTS = ("*.py", "formatters/_*.py", "formatters/terminal.py", "lexers/_*.py", "styles/_*.py")
PYGMENTS += ("lexers/python.py", "lexers/diff.py", "filters/_*.py")
PACKAGES = {
    "pytest": ("py.py", "_pytest/**/*.py", "pytest/*.py"),
    "pluggy": ("pluggy/*.py",),
    "iniconfig": ("iniconfig/*.py",),
    "packaging": ("packaging/*.py",),
    "Pygments": tuple(f"pygments/{pattern}" for pattern in PYGMENTS),
}


def kept(book: Path) -> Path:
    """Where fetch_pyodide.py puts Pyodide, as one script."""
    return book / ".cache" / f"pyodide-{pin(book)['version']}.js"


def pin(book: Path) -> dict[str, str]:
    return dict(json.loads((book / "pyodide.json").read_text(encoding="utf-8")))


def bundle(book: Path, repo: Path) -> bool:
    """Write src/python anew where it changed; without Pyodide, take it away. Whether it is there.

    book: the book's folder; repo: the repository's.
    """
    target = book / "src" / "python"
    if not kept(book).is_file():
        shutil.rmtree(target, ignore_errors=True)
        return False
    course = {
        "worker": (book / "python" / "worker.js").read_text(encoding="utf-8"),
        "zip": base64.b64encode(_archive(book, repo)).decode(),
        "labs": {name: _lab(choose_lab(name, find_labs(repo)), repo) for name in LABS},
    }
    _write(target / "pyodide.js", kept(book).read_text(encoding="utf-8"))
    _write(target / "course.js", f"window.LAB_COURSE = {json.dumps(course)};\n")
    for script in sorted((book / "python").glob("*.js")):
        if script.name != "worker.js":
            _write(target / script.name, script.read_text(encoding="utf-8"))
    _write(target / "LICENSES.txt", _licences(pin(book)))
    return True


def _write(path: Path, text: str) -> None:
    """Only what changed, so that a served book does not see its own writing as an edit."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write(path, text)


def _archive(book: Path, repo: Path) -> bytes:
    """A zip with `site` (pytest and what it needs) and `course` (labkit and the labs)."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(_files(book, repo)):
            archive.writestr(zipfile.ZipInfo(name), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _files(book: Path, repo: Path) -> Iterator[tuple[str, Path]]:
    for package, patterns in PACKAGES.items():
        site = Path(str(importlib.metadata.distribution(package).locate_file("")))
        for pattern in patterns:
            for file in site.glob(pattern):
                yield f"site/{file.relative_to(site).as_posix()}", file
    for file in (book / "python").glob("*.py"):
        yield f"site/{file.name}", file
    for part in ("figures", "labbook"):
        for file in (book / part).glob("*.py"):
            yield f"course/book/{part}/{file.name}", file
    labs = [choose_lab(name, find_labs(repo)).path for name in LABS]
    ours = [repo / "conftest.py", repo / "pytest.ini", *labs[0].parent.glob("*.*")]
    for folder in (repo / "labkit", *labs):
        ours += folder.rglob("*.*")
    for pattern in PLANNER:
        ours += labs[0].parent.glob(pattern)
    for file in ours:
        if file.suffix in SUFFIXES | {".ini"} and file.is_file() and file.stem != "starter":
            yield f"course/{file.relative_to(repo).as_posix()}", file


def _lab(lab: Lab, repo: Path) -> dict[str, Any]:
    pieces = pieces_of(derive(lab), {name: task.number for name, task in tasks_of(lab).items()})
    return {"starter": lab.file("starter").relative_to(repo).as_posix(), "pieces": pieces}


def pieces_of(text: str, tasks: dict[str, int]) -> list[dict[str, Any]]:
    """A starter cut into what is given and what each task asks for; joined they are the file.

    tasks: the number of each function's task. A piece is {"task", "text", "anchor", "back"}, task 0
    for what is given; it begins `back` lines before the one line of the file that begins with
    `anchor`, also in an edited file.
    """
    lines = text.splitlines(keepends=True)
    spans: dict[int, list[int]] = {}  # first and last line, the blank ones behind them included
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in tasks:
            first = min(part.lineno for part in [node, *node.decorator_list]) - 1
            last = node.end_lineno or first
            while last < len(lines) and not lines[last].strip():
                last += 1
            spans.setdefault(tasks[node.name], [first, last])[1] = last
    cuts, end = [], 0
    for task, (first, last) in sorted(spans.items(), key=lambda found: found[1]):
        if first < end:
            raise ValueError(f"task {task}'s functions lie apart in starter.py")
        cuts += [(0, end, first), (task, first, last)]
        end = last
    cuts.append((0, end, len(lines)))
    return [_piece(task, lines, first, last) for task, first, last in cuts if first < last]


def _piece(task: int, lines: list[str], first: int, last: int) -> dict[str, Any]:
    text = "".join(lines[first:last])
    own = text.splitlines()
    starts = [line.partition("(")[0] + "(" for line in own if line.startswith("def ")]
    found = next(line for line in [*starts[:1], *own] if _once(line, lines))
    back = next(at for at, line in enumerate(own) if line.startswith(found))
    return {"task": task, "text": text, "anchor": found, "back": back}


def _once(start: str, lines: list[str]) -> bool:
    return bool(start) and sum(line.startswith(start) for line in lines) == 1


def _licences(pin: dict[str, str]) -> str:
    texts = [
        "Python in the pages of this book, and what comes with it.\n",
        f"Pyodide {pin['version']}: Mozilla Public License 2.0, https://mozilla.org/MPL/2.0/; "
        f"unchanged, its source is {pin['source']}\n",
        "Python 3.14 (compiled to WebAssembly, as a part of Pyodide): PSF License Version 2, "
        "https://docs.python.org/3.14/license.html\n",
    ]
    for name in PACKAGES:
        package = importlib.metadata.distribution(name)
        texts.append(f"{name} {package.version}\n{'-' * 40}\n")
        for file in package.files or ():
            if "licenses" in file.parts and file.name.startswith("LICENSE"):
                texts.append(Path(str(package.locate_file(file))).read_text(encoding="utf-8"))
    return "\n".join(texts)
