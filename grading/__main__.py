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
        "--jobs",
        type=int,
        help="submissions at a time (default: this machine's processors; with --cluster slurm, "
        "as many as Slurm starts)",
    )
    run.add_argument(
        "--cluster",
        metavar="WHERE",
        help="grade on other machines: a Dask scheduler's address, or 'slurm'; 'local' and "
        "'submitit-local' try the two on this one",
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
    one.add_argument("--lab", required=True, help="such as 01")
    one.add_argument("--results", help="also write Gradescope's results.json here")
    one.add_argument("--classroom", help="also write GitHub Classroom's result (JSON) here")
    one.add_argument("--no-color", action="store_true", help="plain text")
    _add_grading_options(one)

    for name, text in (
        ("status", "what is graded, waiting and held"),
        ("export", "write the exports again from the gradebook"),
        ("explain", "everything recorded about one student"),
    ):
        command = commands.add_parser(name, help=text)
        if name == "explain":
            command.add_argument("student", help="the name, or a part of it that no other has")
        command.add_argument(
            "--out", default="grades", help="folder of the gradebook (default: grades)"
        )
        if name == "export":
            command.add_argument(
                "--format",
                action="append",
                help="csv, json, junit, gradescope, classroom, ctrf or html; may be repeated "
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
