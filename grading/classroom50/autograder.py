"""Classroom 50 runs this for each submission in the student's checkout; it writes result.json.

It lies at CLASSROOM/autograders/ASSIGNMENT/autograder.py of the organisation's repository. That
bundle can be read by everybody, so nothing secret is in it: the numbers of a check are drawn anew
for each submission. The assignment's runtime block gives Python and the sandbox:

    {"runs-on": "ubuntu-latest", "python": "3.12", "apt": ["bubblewrap"]}
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

COURSE = os.environ.get("COURSE", "https://github.com/ORGANISATION/COURSE.git")  # yours
REVISION = os.environ.get("REVISION", "main")  # a commit, so that a term is graded alike
LAB = os.environ.get("LAB", "01")


def main():
    checkout, folder = Path.cwd(), Path(tempfile.mkdtemp())
    os.chdir(folder)  # nothing is run where the student's files are
    (checkout / "result.json").unlink(missing_ok=True)  # one that was handed in
    subprocess.run(["git", "clone", "-q", COURSE, "course"], check=True)
    subprocess.run(["git", "checkout", "-q", REVISION], cwd="course", check=True)
    python = os.environ.get("GRADING_PYTHON", "venv/bin/python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "pip>=25.1"], check=True)
        packages = ["--group", "course/pyproject.toml:grading"]
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    command = [folder / python, "-m", "grading", "run", checkout, "--lab", LAB]
    command += ["--student", os.environ.get("OWNER") or os.environ.get("USERNAME", "student")]
    command += ["--out", folder / "grades", "--classroom50", checkout / "result.json"]
    # 1 says that somebody should look at the hand-in, which has its result all the same; anything
    # above is the machine's fault, for which Classroom 50 shows an error and no zero.
    status = subprocess.run(command, cwd="course").returncode
    return 0 if status <= 1 else status


if __name__ == "__main__":
    sys.exit(main())
