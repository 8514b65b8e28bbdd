"""Grade untrusted submissions of the labs.

Student code runs in a sandbox, the instructor's tests run outside of it, and every record is on the
disk before the next one begins: stop it at any moment and run it again.
"""

import argparse
import contextlib
import os
import sys

from grading.limits import MIB, Limits

PROBLEM, USAGE = 1, 2


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grading", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="grade a folder or zip file of submissions")
    run.add_argument("submissions", help="a folder or zip file as the course's platform exports it")
    run.add_argument(
        "--out", default="grades", help="folder of the gradebook and the exports (default: grades)"
    )
    run.add_argument("--lab", help="grade this lab alone, such as 01")
    run.add_argument(
        "--roster",
        metavar="FILE",
        help="the class as a CSV file (name, id, sis id, login, email, group): everybody has a row",
    )
    run.add_argument(
        "--deadline", metavar="TIME", help="say who handed in later, such as 2026-11-30T23:59"
    )
    run.add_argument(
        "--again", metavar="STUDENT", nargs="+", help="grade these students anew; see `diff`"
    )
    run.add_argument(
        "--jobs",
        type=int,
        help="submissions at a time (default: this machine's processors; with --cluster slurm, "
        "as many as Slurm starts)",
    )
    run.add_argument(
        "--cluster",
        metavar="WHERE",
        help="grade on other machines: a Dask scheduler's address, or 'slurm'; 'local' tries it on "
        "this one",
    )
    run.add_argument(
        "--slurm",
        metavar="NAME=VALUE,...",
        action="append",
        default=[],
        help="sbatch's long options, such as partition=long,time=30,cpus-per-task=4",
    )
    _add_grading_options(run)

    one = commands.add_parser("one", help="grade one hand-in and show what its student would read")
    one.add_argument("file", help="the student's starter.py, or a folder of theirs that holds it")
    one.add_argument("--lab", required=True, nargs="+", help="such as 01; several have one total")
    one.add_argument("--results", help="also write Gradescope's results.json here")
    one.add_argument("--classroom", help="also write GitHub Classroom's result (JSON) here")
    one.add_argument("--no-color", action="store_true", help="plain text")
    _add_grading_options(one)

    texts = {
        "status": "what is graded, waiting and held",
        "export": "write the exports again from the gradebook",
        "explain": "everything recorded about one student",
        "adjust": "add points to a student's lab, or take some; 0 undoes it",
        "diff": "which rows and claims changed, since the former grading or another gradebook's",
        "forget": "remove everything stored about one student",
        "merge": "add what other machines graded",
    }
    more = {name: commands.add_parser(name, help=text) for name, text in texts.items()}
    for command in more.values():
        command.add_argument(
            "--out", default="grades", help="folder of the gradebook (default: grades)"
        )
    for name in ("explain", "adjust", "forget"):
        more[name].add_argument("student", help="the name, or a part of it that no other has")
    more["adjust"].add_argument("lab", help="such as 01")
    more["adjust"].add_argument("points", type=int, help="such as 5 or -10")
    more["adjust"].add_argument("--because", required=True, metavar="TEXT", help="shown with it")
    more["diff"].add_argument("other", nargs="?", help="the folder of an earlier gradebook")
    more["merge"].add_argument("gradebooks", nargs="+", help="folders of gradebooks, such as --out")
    more["export"].add_argument(
        "--format",
        action="append",
        help="csv, canvas, moodle, json, junit, ctrf, html or feedback; may be repeated "
        "(default: all)",
    )

    doctor = commands.add_parser("doctor", help="which sandbox layers this machine gives")
    doctor.add_argument("--no-color", action="store_true", help="plain text")

    options = parser.parse_args(arguments)
    if sys.platform != "linux":
        print(
            f"grading: this tool needs Linux, whose kernel isolates the submissions; on "
            f"{sys.platform} use a virtual machine, a container or WSL 2",
            file=sys.stderr,
        )
        return USAGE
    from grading import commands as implementations

    with contextlib.suppress(AttributeError):  # a stand-in for a terminal, which takes any letter
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = getattr(implementations, options.command)(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `export | head -1`; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PROBLEM
    except implementations.UserError as error:
        print(f"grading: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        kept = "; what was graded is kept, run the same command to go on"
        print("\nstopped" + kept * (options.command == "run"), file=sys.stderr)
        return 130


def _add_grading_options(parser):
    parser.add_argument(
        "--secret",
        metavar="FILE",
        help="a file of at least 16 random bytes, which hidden numbers are made of (`run` draws "
        "and keeps its own in --out; `one` has hidden numbers only with this)",
    )
    parser.add_argument(
        "--allow-weak-sandbox",
        action="store_true",
        help="grade although layers are missing; every record says so",
    )
    limits = Limits()
    for name, text, usual in (
        ("check-s", "seconds of waiting for student code per check", limits.check_s),
        ("submission-s", "the same per submission and lab", limits.submission_s),
        ("memory-mib", "MiB of memory per submission", limits.memory_bytes / MIB),
    ):
        text += f" (default: {usual:g})"
        parser.add_argument(f"--{name}", type=float, metavar="NUMBER", help=text)


if __name__ == "__main__":
    sys.exit(main())
