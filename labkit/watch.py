"""Grade a lab's starter at every save, showing the task at hand: `make watch LAB=01`.

Without a name it is the lab of the next task that is still to be written.
"""

import os
import subprocess
import sys

from labkit.loading import choose_lab, find_labs
from labkit.scoreboard import place_in_course
from labkit.tasks import is_open, tasks_of

HOME = "\033[H\033[2J"  # a clean screen; what was printed before stays above it


def at_hand(labs):
    """The first lab, in the order of the course, with a task that is still to be written."""
    course = sorted(labs, key=place_in_course)
    return next((lab for lab in course if any(is_open(lab, name) for name in tasks_of(lab))), None)


def main(arguments):
    labs = find_labs()
    names = ", ".join(lab.prefix for lab in sorted(labs, key=place_in_course))
    try:
        lab = choose_lab(arguments[0], labs) if arguments else at_hand(labs)
    except ValueError as error:
        return f"make watch: {error}"
    if lab is None:
        return f"make watch: every task is written; to watch a lab, say LAB= and one of {names}"
    said = f"watching {lab.prefix}/starter.py; make watch LAB= takes one of {names}. Ctrl-C ends."
    command = [sys.executable, "-m", "pytest", str(lab.path), "--at-hand", "--no-summary"]
    environment = os.environ | {"LAB_IMPL": "starter"}

    def grade():
        print(HOME, end="", flush=True)
        subprocess.run(command, env=environment)
        print(f"\n{said}", flush=True)

    from watchfiles import PythonFilter, watch  # installed by make watch

    grade()
    for _ in watch(lab.path, watch_filter=PythonFilter(), raise_interrupt=False):
        grade()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
