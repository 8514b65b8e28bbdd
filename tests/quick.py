"""`make quick`: the tests that the changed files can break, without what takes long."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LABS = "phase-10-distributed-inference/labs"
SLOW = "not gpu and not vllm and not torch and not browser and not slow"
# A changed path that begins with the first may break the tests of the second.
BREAKS = [
    ("labkit/", [LABS, "tests/test_expect.py", "tests/test_tasks.py", "tests/test_house.py"]),
    ("labkit/ranks", ["tests/test_ranks.py"]),
    ("labkit/provenance", ["tests/test_provenance.py"]),
    ("labkit/starters", ["tests/test_starters.py"]),
    ("labkit/mistakes", ["tests/test_mistakes.py"]),
    ("labkit/loading", ["tests/test_switch.py"]),
    ("labkit/plugin", ["tests/test_scoreboard.py", "tests/test_switch.py"]),
    ("labkit/scoreboard", ["tests/test_scoreboard.py"]),
    ("labkit/claims", ["tests/test_scoreboard.py"]),
    (f"{LABS}/collectives.py", [LABS, "tests/test_collectives.py"]),
    ("grading/", ["tests/test_grading_score.py", "tests/test_grading_wire.py"]),
    ("grading/submissions", ["tests/test_grading_submissions.py"]),
    ("grading/exports", ["tests/test_grading_exports.py"]),
    ("grading/gradebook", ["tests/test_grading_gradebook.py"]),
    ("grading/hidden", ["tests/test_grading_hidden.py"]),
    ("book/", ["tests/book/test_book_preprocessor.py", "tests/book/test_book_labs.py"]),
    ("book/src/", ["tests/book/test_book_links.py", "tests/book/test_book_commands.py"]),
    ("benchmarks/", ["tests/test_benchmarks.py"]),
    ("tests/conftest.py", ["tests/test_starters.py"]),
    ("pyproject.toml", ["tests/test_house.py"]),
    ("Makefile", ["tests/test_makefile.py"]),
]


def broken_by(path: str) -> list[str]:
    """The test files and folders that a changed file concerns."""
    if re.match(r"tests/.*test_.*\.py", path):
        return [path]
    found = [test for start, tests in BREAKS if path.startswith(start) for test in tests]
    if lab := re.match(rf"({LABS}/(lab-(\d\d)[^/]*|capstone))/", path):
        number = f"lab{lab[3]}" if lab[3] else "capstone"
        found += [lab[1], *map(str, Path("tests").glob(f"test_{number}_*.py"))]
    return found


def main() -> int:
    git = ["git", "status", "--porcelain", "--untracked-files=all"]
    lines = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    changed = [line[3:].split(" -> ")[-1].strip('"') for line in lines.splitlines()]
    tests = sorted({test for path in changed for test in broken_by(path)})
    tests = [test for test in tests if (ROOT / test).exists()]
    if not tests:
        print("make quick: no changed file that a quick test covers; make test runs everything")
        return 0
    print("make quick:", *tests)
    command = [sys.executable, "-m", "pytest", *tests, "-m", SLOW, "-n", "auto", "-x"]
    command += ["--dist", "loadgroup"]
    status = subprocess.run(command, cwd=ROOT).returncode
    return 0 if status == 5 else status  # 5: all of them are slow ones


if __name__ == "__main__":
    sys.exit(main())
