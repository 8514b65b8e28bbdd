"""The commands of `python -m grading`."""

import os
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.progress import track
from rich.table import Table

from grading import engines, feedback
from grading.exports import (
    Grades,
    classroom_result,
    gradescope_results,
    remove_student,
    to_json,
    write_exports,
)
from grading.fingerprint import environment, labs_by_prefix
from grading.gradebook import Gradebook
from grading.grader import Grader
from grading.limits import MIB, Limits
from grading.problem import Problem
from grading.roster import assign, read_roster
from grading.run import basis_of, grade_missing
from grading.sandbox import OPTIONAL, REQUIRED, check_private, inspect_machine
from grading.sanitise import clean
from grading.submissions import Found, Submission, read_one, read_submissions
from labkit.loading import ROOT, choose_lab

RESULTS = {  # an option of `one`: the schema of what it writes, and how that is made
    "results": ("gradescope", gradescope_results),
    "classroom": ("classroom", classroom_result),
}
COLORS = {"passed": "green", "todo": "yellow", "waits": "yellow", "not_run": "cyan"}
COLORS["adjusted"] = "cyan"


def _console():
    return Console(highlight=False, emoji=False)


def _limits(options) -> Limits:
    limits = Limits()
    for name, value in (("--check-s", options.check_s), ("--memory-mib", options.memory_mib)):
        if value is not None and not 0 < value < 1e9:
            raise Problem(f"{name} {value:g}: give a number above 0, below a thousand million")
    if options.check_s is not None:
        limits = replace(limits, check_s=options.check_s, submission_s=6 * options.check_s)
    if options.memory_mib is not None:
        limits = replace(limits, memory_bytes=int(options.memory_mib * MIB))
    return limits


def _secret(options) -> bytes | None:
    if options.secret is None:
        return None
    try:
        secret = Path(options.secret).read_bytes()
        problem = f"holds {len(secret)} bytes" if len(secret) < 16 else ""
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    if problem:
        raise Problem(
            f"--secret {options.secret} {problem}; give a file of at least 16 random bytes, such "
            "as `head -c 32 /dev/urandom > secret` makes"
        )
    return secret


def _lab(name) -> str:
    """`01`, `1`, `lab-01`, `lab-01-tp-sharding-math` or `capstone` -> `lab-01` or `capstone`."""
    labs = labs_by_prefix()
    number, _, rest = name.removeprefix("lab-").partition("-")
    if number.isdigit():
        name = "-".join(filter(None, ("lab", number.zfill(2), rest)))
    try:
        return choose_lab(name, list(labs.values())).prefix
    except ValueError:
        there = ", ".join(sorted(labs))
        raise Problem(f"--lab {name}: no such lab; there are {there}") from None


def _check_machine(options):
    refusal = inspect_machine().refusal
    if refusal and not options.allow_weak_sandbox:
        raise Problem(refusal)


def _check_private(options):
    """Nothing that is kept from submissions may lie where they can read."""
    places = {"the course": ROOT}
    for name in (
        "submissions",
        "file",
        "--secret",
        "--out",
        "--roster",
        "--results",
        "--classroom",
    ):
        if path := vars(options).get(name.lstrip("-")):
            places[name] = path
    check_private(places)


def _check_tests(labs):
    """Tests that pytest cannot collect are nobody's zero: said once, before anybody is graded."""
    for lab in labs:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--no-header"]
        environment = {**os.environ, "LAB_IMPL": "solution", "PYTEST_ADDOPTS": ""}
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", "."],
            cwd=lab.path,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if done.returncode:
            lines = [line for line in done.stdout.splitlines() if line.startswith("E  ")]
            why = clean(" ".join(lines) or (done.stdout + done.stderr)[-500:], 600)
            raise Problem(f"the tests of {lab.name} cannot be collected, nobody was graded: {why}")


# --- run ------------------------------------------------------------------------------------------


def run(options) -> int:
    console, limits, secret = _console(), _limits(options), _secret(options)
    _check_private(options)
    only = _lab(options.lab) if options.lab else None
    if options.jobs is not None and options.jobs < 1:
        raise Problem(f"--jobs {options.jobs}: give at least 1")
    deadline, weak = _deadline(options.deadline), options.allow_weak_sandbox
    sbatch = engines.check(options.cluster, options.slurm, weak)
    if options.cluster in engines.HERE:  # else the sandboxes are on other machines
        _check_machine(options)
    people = read_roster(options.roster) if options.roster else None
    labs, place = labs_by_prefix(), options.submissions
    found = read_submissions(place, labs, only, limits.source_bytes, deadline=deadline)
    _show_found(console, found)
    if not found.submissions:
        raise Problem(
            f"no submission was recognised in {place}; expected NAME/lab-01*/starter.py, "
            "NAME/starter-01.py, or an export of Canvas, Moodle, Blackboard, Brightspace, "
            "Gradescope or GitHub Classroom"
        )
    here = sorted({submission.lab for submission in found.submissions})
    _check_tests(labs[prefix] for prefix in here)
    with Gradebook(options.out, write=True) as gradebook:
        if people is not None:
            gradebook.set_people(people)
        everyone = gradebook.people()
        rows, questions = assign(found.submissions, found.unrecognised, everyone, here)
        questions += [] if everyone else found.twins
        _show(console, "look", questions)
        if options.again:
            gradebook.set_aside(_student(gradebook, name) for name in options.again)
        secret = secret or gradebook.secret()

        def grade(jobs):
            results = engines.grade(jobs, limits, secret, options, sbatch)
            hidden = not console.is_terminal
            return track(results, "grading", len(jobs), console=console, disable=hidden)

        started = time.monotonic()
        graded, held = grade_missing(gradebook, rows, limits, secret, weak, grade)
        seconds, known = time.monotonic() - started, len(rows) - graded - held
        per_s = f", {graded / seconds:.1f} per second" if graded and seconds > 0 else ""
        console.print(f"{graded} graded in {seconds:.1f} s{per_s}; {known} were graded before.")
        write_exports(gradebook, options.out)
        _summary(console, gradebook.records(), gradebook.waiting())
        _show_absent(console, gradebook, rows)
    out = Path(options.out)
    pages = f"{out / 'grades.csv'}, {out / 'html' / 'index.html'}"
    console.print(f"Exports: {escape(pages)}, and more beside them.", soft_wrap=True)
    if held:
        told = f"{held} held, without a score: the grader failed on them. Run it again; "
        told += "`python -m grading doctor` tests this machine."
        console.print(f"[red]{told}[/]", soft_wrap=True)
    if look := len(found.ignored) + len(questions):
        count = _count(look, "hand-in needs", "hand-ins need")
        console.print(f"[yellow]{count} a look, listed at the top.[/]")
    return 1 if held or look else 0


def _deadline(text):
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Problem(
            f"--deadline {text}: give a time such as 2026-11-30T23:59 or 2026-11-30T23:59+01:00"
        ) from None
    return when if when.tzinfo else when.astimezone()


def _show_found(console, found):
    shapes = ", ".join(f"{count} {shape}" for shape, count in sorted(found.shapes.items()))
    count = _count(len(found.submissions), "submission")
    console.print(f"{count} recognised" + (f" ({shapes})." if shapes else "."))
    _show(console, "not graded", [*found.ignored, *found.older])


def _show(console, label, those, most=100):
    """A line for each (whose, why), of which there may be many."""
    for whose, why in those[:most]:
        console.print(f"  [yellow]{label}[/] {escape(clean(f'{whose}: {why}'))}", soft_wrap=True)
    if len(those) > most:
        console.print(f"  ... and {len(those) - most} more")


def _show_absent(console, gradebook, submissions):
    """Rows that an earlier run made, of students or files that this one did not find."""
    here = {(submission.student, submission.lab) for submission in submissions}
    students, labs = map(set, zip(*here, strict=True))
    others = sorted(gradebook.roster() - here)
    absent = [f"{who} {lab}" for who, lab in others if who not in students or lab in labs]
    if absent:
        rows = _count(len(absent), "row of an earlier run is", "rows of earlier runs are")
        some = escape(", ".join(absent[:8])) + ", ..." * (len(absent) > 8)
        told = (
            f"[yellow]{rows} kept, though not among these submissions:[/] {some}. To be without, "
        )
        console.print(told + "grade into another folder with --out.", soft_wrap=True)


def _summary(console, records, waiting):
    labs = sorted({record["lab"] for record in records})
    table = Table(box=None, pad_edge=False)
    for name in ("Student", *labs, "Next step"):
        table.add_column(name, justify="right" if name in labs else "left", no_wrap=True)
    students = Grades(records, [], []).by_student()
    shown = list(students.items())[:40]
    names = max((len(clean(student, 28)) for student, _ in shown), default=0)
    room = max(20, console.width - max(names, len("Student")) - 8 * len(labs) - 2)
    for student, row in shown:
        lowest = min(row.values(), key=lambda record: record["score"])
        cells = [_score(row[lab]) if lab in row else "" for lab in labs]
        step = clean(feedback.next_step_parts(lowest)[1], room)
        table.add_row(escape(clean(student, 28)), *cells, escape(step))
    if students:
        console.print(table)
    if len(students) > 40:
        console.print(f"... and {len(students) - 40} more students; html/index.html has all")
    for lab in labs:
        there = [record for record in records if record["lab"] == lab]
        scores = [record["score"] for record in there if feedback.handed_in(record)] or [0]
        not_run = max(record["not_run"] for record in there)
        console.print(
            f"{lab}: {_count(len(scores), 'submission')}, median {statistics.median(scores):g}, "
            f"{sum(score == 100 for score in scores)} with full marks"
            + (f", {not_run} of 100 points not run here" if not_run else "")
        )
    if weak := sum(record["integrity"] != "isolated" for record in records):
        count = _count(weak, "record was", "records were")
        console.print(f"[red]{count} made in a weak sandbox.[/]")
    _show(console, "no score", [(f"{student} {lab}", why) for student, lab, why in waiting], 10)


def _count(number, one, several=None):
    return f"{number} {one if number == 1 else several or one + 's'}"


def _score(record):
    score = f"{record['score']}"
    if not feedback.counts(record):
        return "[dim]-[/]"
    if record["score"] + record["not_run"] >= record["max_score"]:
        return f"[green]{score}[/]"
    return score if record["score"] else f"[red]{score}[/]"


# --- one ------------------------------------------------------------------------------------------


def one(options) -> int:
    console = _console()
    limits, secret = _limits(options), _secret(options)
    labs = [_lab(name) for name in options.lab]
    _check_private(options)
    _check_machine(options)
    records = []
    with Grader(limits, options.allow_weak_sandbox, secret) as grader:
        for lab in labs:
            submission, found = _hand_in(options.file, lab, limits)
            result = grader.grade_or_refuse(submission, labs_by_prefix()[lab])
            if result["status"] != "graded":
                problem = result["problem"]
                raise Problem(f"the grader itself failed, so there is no score: {problem}")
            about = {"student": "student", "lab": lab} | basis_of(submission, limits)
            records.append(about | result)
            _show(console, "not graded", [*found.ignored, *found.older])
            _show_record(console, records[-1])
    for name, (schema, make) in RESULTS.items():
        if path := vars(options)[name]:
            try:
                Path(path).write_text(to_json(schema, make(records)))
            except OSError as error:
                raise Problem(f"cannot write {path}: {error.strerror}") from None
    return 0


def _hand_in(place, lab, limits):
    """(one student's file, or the best in a folder of theirs, what was found there)"""
    if not os.path.lexists(place):
        raise Problem(f"{place} does not exist")
    if not os.path.isdir(place):
        source, problem = read_one(place, limits.source_bytes)
        return Submission("student", lab, place, source, problem), Found()
    found = read_submissions(place, labs_by_prefix(), lab, limits.source_bytes, "student")
    return (found.submissions + found.unrecognised)[0], found


def _show_record(console, record):
    console.print(f"[bold]{record['lab_name']}[/]  {feedback.score(record)}")
    for claim in (claim for claim in record["claims"] if not claim["broken"]):
        color = COLORS.get(claim["outcome"], "red")
        label = feedback.LABELS[claim["outcome"]]
        line = f"{claim['earned']:>3}/{claim['points']:<3} {escape(claim['text'])}"
        console.print(f"  [{color}]{label:>12}[/] {line}", soft_wrap=True)
        if claim["outcome"] not in ("passed", "todo", "adjusted"):
            about = Padding(escape(feedback.sentence(claim)), (0, 0, 0, 23))
            console.print(about, style="dim")
    if record["printed"]:
        console.print(
            "Printed (first lines): " + escape(clean(record["printed"], 300)), style="dim"
        )
    if record["integrity"] != "isolated":
        console.print(f"[red]weak sandbox: without {', '.join(record['missing'])}[/]")
    console.print(f"[bold]Next:[/] {escape(feedback.next_step(record))}")


# --- what a gradebook says ------------------------------------------------------------------------


def _student(gradebook, wanted):
    """The one student of that name, or of whose name it is a part."""
    names = {student for student, _ in gradebook.roster()}
    names |= {person.student for person in gradebook.people()}
    those = {wanted} & names or {name for name in names if wanted.lower() in name.lower()}
    if not those:
        raise Problem(
            f"no student called '{wanted}' in {gradebook.path.parent}; `status` and grades.csv "
            "list them"
        )
    if len(those) > 1:
        some = ", ".join(sorted(those)[:8]) + ", ..." * (len(those) > 8)
        raise Problem(f"'{wanted}' could be {some}; give more of the name")
    return those.pop()


def status(options) -> int:
    console = _console()
    with Gradebook(options.out) as gradebook:
        records, waiting, seconds = gradebook.records(), gradebook.waiting(), gradebook.seconds()
    console.print(f"{len(records)} graded, {len(waiting)} without a score.")
    if seconds:
        console.print(f"Median time of a submission and lab: {statistics.median(seconds):.2f} s.")
    _summary(console, records, waiting)
    return 1 if waiting else 0


def export(options) -> int:
    with Gradebook(options.out) as gradebook:
        for path in write_exports(gradebook, options.out, options.format):
            print(path)
    return 0


def adjust(options) -> int:
    with Gradebook(options.out, write=True, old=True) as gradebook:
        student, lab = _student(gradebook, options.student), _lab(options.lab)
        if (student, lab) not in gradebook.roster():
            raise Problem(
                f"{student} has no row for {lab}; run with --roster to give everybody one"
            )
        gradebook.adjust(student, lab, options.points, clean(options.because))
        write_exports(gradebook, options.out)
        for record in gradebook.records():
            if (record["student"], record["lab"]) == (student, lab):
                print(f"{student} {lab}: {record['score']} of {record['max_score']} points")
    return 0


def diff(options) -> int:
    """Between two gradebooks, or what counts now and what counted before in one."""
    with Gradebook(options.out) as gradebook:
        now, before = gradebook.records(), gradebook.former()
    if options.other:
        with Gradebook(options.other) as gradebook:
            before = gradebook.records()
    now, before = ({(r["student"], r["lab"]): r for r in records} for records in (now, before))
    changed = 0
    for student, lab in now | before:
        old, new = before.get((student, lab)), now.get((student, lab))
        if old and new:
            lines = _changes(old, new)
        elif options.other:
            lines = [f"new, {new['score']}" if new else f"gone, was {old['score']}"]
        else:
            lines = []  # graded for the first time, or not yet again
        if lines:
            changed += 1
            print(f"{student} {lab}: {lines[0]}", *lines[1:], sep="\n")
    print(f"{_count(changed, 'row')} changed.")
    return 1 if changed else 0


def _changes(old, new):
    """Both scores, and each claim that differs; nothing if all is the same."""
    was, is_ = ({claim["name"]: claim for claim in record["claims"]} for record in (old, new))
    nothing = {"earned": 0, "outcome": "not_there", "text": ""}
    lines = [f"{old['score']} -> {new['score']}"]
    for name in was | is_:
        one, two = was.get(name, nothing), is_.get(name, nothing)
        if (one["earned"], one["outcome"]) != (two["earned"], two["outcome"]):
            labels = (feedback.LABELS.get(c["outcome"], "not there") for c in (one, two))
            points = f"{one['earned']} -> {two['earned']}"
            lines.append(f"  {points}  {' -> '.join(labels)}  {two['text'] or one['text']}")
    return lines if len(lines) > 1 or old["score"] != new["score"] else []


def forget(options) -> int:
    with Gradebook(options.out, write=True, old=True) as gradebook:
        student = _student(gradebook, options.student)
        places = [r["place"] for r in gradebook.records() if r["student"] == student and r["place"]]
        gradebook.forget(student)
        remove_student(options.out, student)
        write_exports(gradebook, options.out)
    print(f"{student} is in no file of {options.out} any more.")
    if places:
        print(f"Delete the hand-in too, or the next run grades it again: {', '.join(places)}")
    return 0


def merge(options) -> int:
    for other in options.gradebooks:
        Gradebook(other).close()  # before --out is made
    with Gradebook(options.out, write=True) as gradebook:
        for other in options.gradebooks:
            if both := gradebook.merge(other):
                count = _count(len(both), "row was", "rows were")
                print(f"{count} in {options.out} already; of each the later one counts.")
        write_exports(gradebook, options.out)
        print(f"{_count(len(gradebook.records()), 'record')} in {options.out}.")
    return 0


# --- doctor ---------------------------------------------------------------------------------------


def doctor(options) -> int:
    from grading.escape_attempts import attempt_escapes

    console = _console()
    _check_private(options)
    machine = inspect_machine()
    console.print(
        ", ".join(f"{name} {value}" for name, value in environment().items()), style="dim"
    )
    layers, attempts = attempt_escapes(machine)
    for layer in (*REQUIRED, *OPTIONAL):
        needed = "required" if layer in REQUIRED else "optional"
        if layer in layers:
            console.print(f"  [green]     on[/] {layer} ({needed})")
        else:
            why = machine.missing.get(layer, "not available to this user")
            console.print(f"  [red]missing[/] {layer} ({needed}): {escape(why)}")
    console.print("A probe inside the sandbox tried:")
    for what, refused, detail in attempts:
        word = "[green]refused[/]" if refused else "[red]ALLOWED[/]"
        console.print(f"  {word} {what}: {escape(clean(detail, 100))}", soft_wrap=True)
    whole = set(REQUIRED) <= set(layers) and all(refused for _, refused, _ in attempts)
    console.print(
        "[green]This machine isolates submissions.[/]"
        if whole
        else "[red]This machine does not isolate submissions; `run` refuses without "
        "--allow-weak-sandbox.[/]"
    )
    return 0 if whole else 1
