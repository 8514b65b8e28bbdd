"""Do the checks notice? Mutate a lab's solution with cosmic-ray and run the lab's tests on each.

    make mutation LAB=lab-01

Works on a copy in a temporary folder. Prints every surviving mutant as a diff, then the kill rate.
A survivor is either a gap in the checks or a change without effect; the reader decides which.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labkit.loading import choose_lab, find_labs  # noqa: E402
from labkit.starters import copy_course  # noqa: E402

CONFIG = """\
[cosmic-ray]
module-path = "{solution}"
timeout = 60.0
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lab", nargs="?", help="lab-01, ...")
    name = parser.parse_args().lab
    if not name:
        sys.exit("which lab? such as: make mutation LAB=lab-01")
    try:
        lab = choose_lab(name, find_labs())
    except ValueError as error:
        sys.exit(f"LAB={error}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_course(copy, *find_labs())
        folder_of_lab = lab.path.relative_to(ROOT)
        tests = [sys.executable, "-m", "pytest", str(folder_of_lab / "test_lab.py")]
        tests += "-x -q -p no:cacheprovider --timeout 30".split()
        if subprocess.run(tests, cwd=copy).returncode:
            sys.exit(f"{lab.name}: its tests fail before anything is mutated; nothing to measure")
        config = CONFIG.format(solution=folder_of_lab / "solution.py", command=shlex.join(tests))
        (copy / "mutation.toml").write_text(config, encoding="utf-8")
        tool = str(Path(sys.executable).with_name("cosmic-ray"))
        for command in (
            [tool, "init", "mutation.toml", "mutants.sqlite"],
            [tool, "exec", "mutation.toml", "mutants.sqlite"],
        ):
            subprocess.run(command, cwd=copy, check=True)
        report = subprocess.run(
            [str(Path(tool).with_name("cr-report")), "--show-diff", "mutants.sqlite"],
            cwd=copy,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    jobs = report.split("[job-id] ")[1:]
    survivors = [job for job in jobs if "TestOutcome.SURVIVED" in job]
    for number, job in enumerate(survivors, start=1):
        lines = [line for line in job.splitlines() if re.match(r"[-+@]", line)]
        changed = [line for line in lines if not line.startswith(("---", "+++"))]
        print(f"survivor {number}", *changed, sep="\n  ")
    killed = len(jobs) - len(survivors)
    print(f"{lab.name}: {killed} of {len(jobs)} mutants killed ({killed / len(jobs):.1%})")


if __name__ == "__main__":
    main()
