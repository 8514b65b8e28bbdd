"""Grade untrusted submissions of the labs.

Student code runs in a sandbox, the instructor's tests run outside of it, and every record is on the
disk before the next one begins: stop it at any moment and run it again.
"""

import argparse
import contextlib
import os
import sqlite3
import sys

from grading.limits import MIB, Limits
from grading.problem import Problem

PROBLEM, USAGE = 1, 2
GRADEBOOK = {  # the commands that only need one, besides --out
    "status": "what is graded, waiting and held",
    "export": "write the exports again from the gradebook",
    "adjust": "add points to a student's lab, or take some; 0 undoes it",
    "diff": "which rows and claims changed, since the former grading or another gradebook's",
    "forget": "remove everything stored about one student",
    "merge": "add what other machines graded",
}


def main(arguments=None) -> int:
    options = parser().parse_args(arguments)
    with contextlib.suppress(AttributeError):  # a stand-in for a terminal, which takes any letter
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if sys.platform != "linux":
            raise Problem(
                "this tool needs Linux, whose kernel isolates the submissions; on "
                f"{sys.platform} use a virtual machine, a container or WSL 2"
            )
        from grading import commands

        status = getattr(commands, options.command)(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `export | head -1`; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEM
    except Problem as error:
        print(f"grading: {error}", file=sys.stderr)
        return USAGE
    except sqlite3.Error as error:
        print(
            f"grading: the gradebook in {options.out} cannot be used ({error}); make room on the "
            "disk, restore the folder from a copy, or grade into another one with --out",
            file=sys.stderr,
        )
        return USAGE
    except KeyboardInterrupt:
        kept = "; what was graded is kept, run the same command to go on"
        print("\nstopped" + kept * (options.command == "run"), file=sys.stderr)
        return 130


def parser():
    whole = argparse.ArgumentParser(prog="python -m grading", description=__doc__)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="grade a folder or zip file of submissions"))
    _add_one(commands.add_parser("one", help="grade one hand-in and show what its student reads"))
    more = {name: commands.add_parser(name, help=text) for name, text in GRADEBOOK.items()}
    for name, command in more.items():
        _add_out(command)
        if name in ("adjust", "forget"):
            command.add_argument("student", help="the name, or a part of it that no other has")
    more["adjust"].add_argument("lab", help="such as 01")
    more["adjust"].add_argument("points", type=int, help="such as 5 or -10")
    more["adjust"].add_argument("--because", required=True, metavar="TEXT", help="shown with it")
    more["diff"].add_argument("other", nargs="?", help="the folder of an earlier gradebook")
    more["merge"].add_argument("gradebooks", nargs="+", help="folders of gradebooks, such as --out")
    formats = "csv, canvas, moodle, json, junit, ctrf, html or feedback; may be repeated"
    more["export"].add_argument("--format", action="append", help=f"{formats} (default: all)")
    commands.add_parser("doctor", help="which sandbox layers this machine gives")
    return whole


def _add_out(command):
    text = "folder of the gradebook and the exports (default: grades)"
    command.add_argument("--out", default="grades", help=text)


def _add_run(command):
    add = command.add_argument
    add("submissions", help="a folder or zip file as the course's platform exports it")
    _add_out(command)
    add("--lab", help="grade this lab alone, such as 01")
    text = "the class as a CSV file (name, id, sis id, login, email, group): everybody has a row"
    add("--roster", metavar="FILE", help=text)
    text = "say who handed in later, such as 2026-11-30T23:59"
    add("--deadline", metavar="TIME", help=text)
    text = "grade these students anew; see `diff`"
    add("--again", metavar="STUDENT", nargs="+", help=text)
    text = "submissions at a time (default: this machine's processors; on Slurm what it starts)"
    add("--jobs", type=int, help=text)
    text = "a Dask scheduler's address, or 'slurm'; 'local' tries it on this machine"
    add("--cluster", metavar="WHERE", help=f"grade on other machines: {text}")
    text = "sbatch's long options, such as partition=long,time=30,cpus-per-task=4"
    add("--slurm", metavar="NAME=VALUE,...", action="append", default=[], help=text)
    _add_grading_options(command)


def _add_one(command):
    add = command.add_argument
    add("file", help="the student's starter.py, or a folder of theirs that holds it")
    add("--lab", required=True, nargs="+", help="such as 01; several have one total")
    add("--results", help="also write Gradescope's results.json here")
    add("--classroom", help="also write GitHub Classroom's result (JSON) here")
    _add_grading_options(command)


def _add_grading_options(command):
    add, usual = command.add_argument, Limits()
    text = "a file of at least 16 random bytes, which hidden numbers are made of (`run` draws and "
    text += "keeps its own in --out; `one` has hidden numbers only with this)"
    add("--secret", metavar="FILE", help=text)
    text = "grade although layers are missing; every record says so"
    add("--allow-weak-sandbox", action="store_true", help=text)
    text = "seconds of waiting for student code per check; six times as much for all of a lab's"
    add("--check-s", type=float, metavar="N", help=f"{text} (default: {usual.check_s:g})")
    text = f"MiB of memory per submission (default: {usual.memory_bytes // MIB})"
    add("--memory-mib", type=float, metavar="N", help=text)


if __name__ == "__main__":
    sys.exit(main())
