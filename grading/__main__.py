"""Grade untrusted hand-ins of the labs.

A hand-in's code runs in a sandbox, the instructor's tests run outside of it, and each record is on
the disk before the next one begins: stop it at any moment and run it again.
"""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # The folder in which this is typed may be the hand-ins': nothing is ever imported from there,
    # here or in any process that is started from here.
    course = __file__.rpartition("/grading/")[0]
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["PYTHONPATH"] = ":".join([course, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.execv(sys.executable, [sys.executable, "-m", "grading", *sys.argv[1:]])

import argparse
from pathlib import Path

from grading.text import Problem

LOOK, USAGE = 1, 2


def main(arguments=None) -> int:
    options = parser().parse_args(arguments)
    try:
        if sys.platform != "linux":
            raise Problem(
                "this tool needs Linux, whose kernel isolates the hand-ins; on "
                f"{sys.platform} use a virtual machine, a container or WSL 2"
            )
        sys.stdout.reconfigure(errors="backslashreplace")
        from grading import commands

        status = getattr(commands, options.command)(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `show | head -1`; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return LOOK
    except (Problem, OSError) as error:
        print(f"grading: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("\nstopped; what was graded is kept: the same command goes on", file=sys.stderr)
        return 130


def parser():
    whole = argparse.ArgumentParser(prog="python -m grading", description=__doc__)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="grade a folder or zip file of hand-ins, or one file")
    show = commands.add_parser("show", help="a student's points, and why")
    questions = commands.add_parser("questions", help="questions about a student's own program")
    commands.add_parser("doctor", help="whether this machine can grade")
    for command in (run, show, questions):
        text = "the folder of grades and of all that is made of them (default: grades)"
        command.add_argument("--out", type=Path, default=Path("grades"), help=text)
    run.add_argument("handins", type=Path, help="as the course's platform exports them")
    show.add_argument("student", help="the name, in either order, or a part of it")
    show.add_argument("lab", nargs="?", help="such as 01; all of theirs, if none is named")
    text = "one student; everybody, if none is named"
    questions.add_argument("--student", metavar="NAME", help=text)
    add = run.add_argument
    add("--lab", help="grade this lab alone, such as 01")
    add("--deadline", metavar="TIME", help="say who is late, such as 2026-11-30T23:59")
    text = "a regular expression with the groups name and file, for paths below the folder"
    add("--pattern", metavar="REGEX", help=text)
    add("--student", metavar="NAME", help="all of it is this student's")
    text = "hand-ins at a time (default: one per processor; 500 with --dask)"
    add("--workers", type=int, help=text)
    add("--dask", metavar="ADDRESS", help="grade on the workers of this Dask scheduler")
    add("--gradescope", type=Path, metavar="FILE", help="write the one student's results.json")
    add("--classroom50", type=Path, metavar="FILE", help="write the one student's result.json")
    return whole


if __name__ == "__main__":
    sys.exit(main())
