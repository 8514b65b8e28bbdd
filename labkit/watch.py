"""`python -m labkit.watch lab-01`: grade the lab again at every save, and show the task at hand."""

import subprocess
import sys

from watchfiles import PythonFilter, watch

from labkit.loading import choose_lab, find_labs


def main(arguments) -> int:
    try:
        lab = choose_lab(arguments[0] if arguments else "lab-01", find_labs())
    except ValueError as error:
        print(f"labkit.watch: {error}", file=sys.stderr)
        return 2
    grade = [sys.executable, "-m", "pytest", str(lab.path), "--at-hand", "--no-summary"]
    try:
        _grade(grade)
        for _ in watch(lab.path, watch_filter=PythonFilter()):
            _grade(grade)
    except KeyboardInterrupt:
        pass
    return 0


def _grade(command):
    print("\033[2J\033[H" if sys.stdout.isatty() else "", end="", flush=True)
    subprocess.run(command, check=False)
    print("\nwaiting for a change; Ctrl-C ends", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
