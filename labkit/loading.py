"""Find the labs; load one implementation fresh by path. There is no fallback to another file."""

import hashlib
import importlib.util
import itertools
import os
import sys
import traceback
import types
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPLEMENTATIONS = ("solution", "starter")
RUNS_YOURS = " (LAB_IMPL=starter runs yours)"
_serial = itertools.count()


class LoadError(Exception):
    """The file to be graded is missing or cannot be imported; str() is one line for its author."""


@dataclass(frozen=True)
class Lab:
    """One lab folder, such as phase-10-.../labs/lab-01-tp-sharding-math."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def prefix(self) -> str:
        """`lab-01` or `capstone`, what people type."""
        return "-".join(self.name.split("-")[:2])

    def file(self, which: str) -> Path:
        """The path of `solution`, `starter`, `test_lab` or `mistakes`."""
        return self.path / f"{which}.py"


def find_labs(root: Path = ROOT) -> list[Lab]:
    """Every lab of every phase, in the order of their numbers, the capstone last."""
    tests = Path(root).glob("phase-*/labs/*/test_lab.py")
    folders = sorted((path.parent.name.startswith("lab-") is False, path.parent) for path in tests)
    return [Lab(folder) for _, folder in folders]


def choose_lab(name: str, labs: list[Lab]) -> Lab:
    """The lab that `name` is a unique prefix of; `1` will do. ValueError lists the choices."""
    name = name.rstrip("/").lower()
    number = name.removeprefix("lab-")
    name = f"lab-{number if number == '0' else number.zfill(2)}" if number.isdigit() else name
    matches = [lab for lab in labs if lab.name.startswith(name)]
    exact = [lab for lab in matches if lab.name == name]
    if len(exact or matches) == 1:
        return (exact or matches)[0]
    what = "is ambiguous: it could be" if matches else "is not a lab; there are"
    choices = ", ".join(lab.name for lab in matches or labs)
    raise ValueError(f"'{name}' {what} {choices}")


def chosen_implementation(default: str = "solution") -> str:
    """What LAB_IMPL names, `solution` by default. ValueError for anything else."""
    which = os.environ.get("LAB_IMPL", default)
    if which not in IMPLEMENTATIONS:
        raise ValueError(f"LAB_IMPL={which!r}: it is 'solution' (the default) or 'starter'")
    return which


def load_chosen(folder: Path, default: str = "solution") -> "Implementation":
    """What LAB_IMPL names in a lab's folder, for the programs that stand beside it.

    Ends the program with one sentence and status 2 when that is missing or cannot be imported.
    """
    try:
        path = Path(folder) / f"{chosen_implementation(default)}.py"
        return Implementation(load_module(path), path)
    except (ValueError, LoadError) as error:
        _end(error)


def load_and_say(folder: Path, default: str = "solution") -> "Implementation":
    """`load_chosen`, and the first line of the program says whose functions answer."""
    lab = load_chosen(folder, default)
    print(answered_by(folder, default=default), flush=True)
    return lab


def answered_by(*folders: Path, default: str = "solution") -> str:
    """`by your starter.py of lab 03 (LAB_IMPL=solution runs the reference)`, or the reverse.

    folders: of the labs whose functions a program calls.
    """
    folders = [Path(folder).resolve() for folder in folders]
    numbers = [folder.name.split("-")[1] for folder in folders if folder.name.startswith("lab-")]
    labs = [f"lab{'s' * (len(numbers) > 1)} {', '.join(numbers)}"] if numbers else []
    labs += ["the capstone"] * any(not folder.name.startswith("lab-") for folder in folders)
    if chosen_implementation(default) == "starter":
        return f"by your starter.py of {' and '.join(labs)} (LAB_IMPL=solution runs the reference)"
    return f"by the reference, solution.py of {' and '.join(labs)}{RUNS_YOURS}"


def run_program(main) -> None:
    """main(), of a program that calls the learner's functions; one not written yet ends it."""
    try:
        status = main()
        print(end="", flush=True)  # nowhere, where standard output is closed
    except NotImplementedError as error:
        _end(error)
    except BrokenPipeError:  # `... | head -1`; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _end(error):
    program = Path(sys.argv[0])
    name = program.parent.name if program.name == "__main__.py" else program.name
    print(f"{name}: {error}", file=sys.stderr)
    raise SystemExit(2)


class Implementation:
    """The functions and constants of one loaded file."""

    def __init__(self, module, path):
        self._module = module
        self._path = Path(path)

    def __getattr__(self, name):
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise AssertionError(
                f"{self._path.name} has no `{name}`; the tests call it by that name"
            ) from None


def sha256(path: Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def load_module(path: Path) -> types.ModuleType:
    """Execute the file at `path` as a new module of a unique name.

    It is compiled from its text each time, so no stale bytecode can be graded, and registered under
    a name no other lab can import. It may import collectives.py of the labs folder, which comes
    last on the path, and the given packages and modules of its own folder, but no solution.
    """
    path = Path(path)
    if str(path.parent.parent) not in sys.path:
        sys.path.append(str(path.parent.parent))
    if not any(getattr(finder, "lab", None) == path.parent for finder in sys.meta_path):
        sys.meta_path.append(_Given(path.parent))
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        fix = "`make starters` writes a fresh one" if path.stem == "starter" else "restore it"
        raise LoadError(f"{path.parent.name}/{path.name} is missing; {fix}") from None
    name = f"_graded_{next(_serial)}_{path.parent.name.replace('-', '_')}_{path.stem}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        where = Path(error.filename or path).name
        raise LoadError(f"{where} line {error.lineno}: {error.msg}") from None
    except BaseException as error:  # SystemExit, a time limit, anything the file does on import
        if isinstance(error, KeyboardInterrupt):
            raise
        raise LoadError(f"{describe_exception(error, path)} (while it was imported)") from None
    return module


class _Given:
    """Finds the packages and the modules given_... of a lab's folder, and nothing else there."""

    def __init__(self, folder):
        self.lab = folder

    def find_spec(self, name, path=None, target=None):
        file = f"{name}.py" if name.startswith("given_") else f"{name}/__init__.py"
        if path is None and (self.lab / file).is_file():
            return importlib.util.spec_from_file_location(name, self.lab / file)
        return None


def describe_exception(error: BaseException, path: Path, called: str = "") -> str:
    """`starter.py line 12: TypeError: ...`: the deepest line of the learner's own file.

    called: a function of the file, whose line is named first when the error came from another:
    `starter.py line 40 (line 12 in shards): ...`.
    """
    words = [str(error), *getattr(error, "__notes__", ())]  # a check's idea is a note
    ends = [word.rstrip(".") for word in words[:-1]] + words[-1:]
    kind, text = type(error).__name__, " ".join(". ".join(filter(None, ends)).split())
    steps, where = _steps_in(error, str(path)), ""
    if steps:
        deepest, line = steps[-1]
        within = [at for function, at in steps if function == called]
        if within and deepest != called:
            where = f"{path.name} line {within[-1]} (line {line} in {deepest}): "
        else:
            where = f"{path.name} line {line}: "
    return f"{where}{kind}: {text}" if text else f"{where}{kind}"


def line_in(error: BaseException, file: str) -> int | None:
    """The deepest line of this file that the error passed through."""
    steps = _steps_in(error, file)
    return steps[-1][1] if steps else None


def _steps_in(error, file):
    """(function, line) of this file that the error passed through, the deepest last.

    What stands inside a function, such as a comprehension, counts as the function.
    """
    codes = ((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))
    return [
        (code.co_qualname.partition(".")[0], line)
        for code, line in codes
        if code.co_filename == file
    ]
