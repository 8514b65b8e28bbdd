"""The commands of `python -m grading`: run, show, questions, doctor."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext

from grading import pages, similar
from grading import questions as asked
from grading.exports import classroom50_result, gradescope_results, write_exports
from grading.grade import NoCell, grade
from grading.gradebook import Gradebook, Grades, labs, nothing, replace_file
from grading.handins import collect
from grading.roster import (
    assign,
    mark_late,
    named,
    read_adjustments,
    read_roster,
    share_in_groups,
)
from grading.text import Problem, clean, count
from labkit.loading import choose_lab
from labkit.table import columns

FINE, LOOK = 0, 1
MOST_LINES = 40
MOST_AT_DASK = 500  # a thread waits for each


def lab_named(name) -> str:
    """`01`, `1`, `lab-01`, `lab-01-tp-sharding-math` or `capstone` -> `lab-01` or `capstone`."""
    try:
        return choose_lab(name, list(labs().values())).prefix
    except ValueError:
        raise Problem(f"{name!r}: no such lab; there are {', '.join(labs())}") from None


# --- run ---------------------------------------------------------------------------------------


def run(options) -> int:
    book = Gradebook(options.out.resolve())
    if book.folder.is_relative_to(options.handins.resolve()):
        raise Problem(
            f"--out {options.out} lies within the hand-ins, where a student's folder may have its "
            "name: give one elsewhere, such as --out ../grades"
        )
    people = read_roster(book.folder / "roster.csv")
    only = lab_named(options.lab) if options.lab else None
    single = options.student or (options.handins.suffix == ".py" and "student") or None
    found = collect(options.handins, labs(), only, options.pattern, single)
    if not found.handins:
        why = "; ".join(f"{where}: {why}" for where, why in found.ignored[:3])
        raise Problem(f"no hand-in in {options.handins}. {why or 'Is it the right folder?'}")
    questions = assign(found.handins, people)
    handins, shared = share_in_groups(found.handins, people)
    gone = {one.student for one in found.handins} - {one.student for one in handins}
    questions = [one for one in questions if one[0] not in gone]  # the name of a group
    mark_late(handins, people, options.deadline)
    print(f"{count(sum(one.source is not None for one in handins), 'hand-in')} found.")
    unread = [(one.student, f"{one.lab}: {one.problem}") for one in handins if one.problem]
    _tell("look", [*found.ignored, *questions, *unread])
    _tell("note", shared)

    held = _grade_all(book, handins, options)
    _tell("look", held)
    grades = load_grades(book, people, handins)
    _tell("look", grades.questions)
    grades.questions[:0] = [*found.ignored, *questions, *held]
    _tell("note", _kept(grades, handins))
    grades.alike = similar.alike(book, grades.table)
    write_exports(grades)
    if held and single:
        raise Problem(held[0][1])
    if single or options.gradescope or options.classroom50:
        _one_result(grades, handins, options)
    else:
        _table(grades)
        print(f"{book.folder}/html/index.html is the class, grades.csv beside it the table.")
    if look := len(grades.questions) + len(unread):
        lines = count(look, "line above needs", "lines above need")
        print(f"{lines} a look; the class page has them first.")
    return LOOK if look else FINE


def _kept(grades, handins):
    """Grades of these labs whose hand-in is not here."""
    here, now = {(one.student, one.lab) for one in handins}, {one.lab for one in handins}
    kept = [(s, lab) for s, lab, _ in grades.handed_in() if lab in now and (s, lab) not in here]
    return [(s, f"{lab} is kept from an earlier run; rm its files to forget it") for s, lab in kept]


def _tell(label, those):
    """A line for each (whose, why), of which there may be many."""
    for whose, why in those[:MOST_LINES]:
        print(f"  {label:5} {clean(whose, 120)}: {clean(why, 400)}")
    if len(those) > MOST_LINES:
        print(f"  ... and {len(those) - MOST_LINES} more")


def _grade_all(book, handins, options):
    """Grade what is new or changed; [(student, why)] of those that the grader failed on."""
    jobs, held = {}, []
    for one in (one for one in handins if not book.stands(one)):
        book.keep_source(one)
        if one.source is None:
            book.write(one, nothing(one))
        else:  # the same file, such as a group's, is graded once
            jobs.setdefault((one.lab, one.source), []).append(one)
    started, new = time.monotonic(), sum(map(len, jobs.values()))
    print(f"{new} to grade ({count(len(jobs), 'different file')}); the others stand as they are.")
    for n, those in enumerate(_graded(book, list(jobs.values()), options), 1):
        held += those
        if sys.stdout.isatty():
            print(f"\r{n} of {len(jobs)}", end="" if n < len(jobs) else "\r", flush=True)
    if jobs:
        took = time.monotonic() - started
        print(f"{new - len(held)} graded in {took:.1f} s, {len(jobs) / took:.1f} files per second.")
    return held


def _graded(book, jobs, options):
    """Grade a hand-in of each job for all of it; [(student, why)] of those that cannot be."""
    secret = book.secret()

    def job(those, grade):
        lab = those[0].lab
        try:
            entry = grade(book.source(those[0].student, lab), lab, secret=secret)
        except NoCell:  # of this machine: it ends the run
            raise
        except Exception as error:
            why = f"{lab}: the grader itself failed, so there is no score: {error}"
            return [(one.student, f"{why}; run the same command again") for one in those]
        for one in those:  # before this thread's next one
            book.write(one, entry)
        return []

    at_once = options.workers or (MOST_AT_DASK if options.dask else len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(max(1, at_once)) as pool, _grader(options.dask) as grade:
        try:
            for done in as_completed([pool.submit(job, those, grade) for those in jobs]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _grader(address):
    """What gives `grade`: of this machine, or of the workers of a Dask scheduler."""
    if not address:
        return nullcontext(grade)
    try:
        from grading.dask import grader
    except ModuleNotFoundError as error:
        how = ".venv/bin/python -m pip install --group cluster"
        raise Problem(f"--dask needs {error.name}, which is not installed: {how}") from None
    return grader(address)


def load_grades(book, people=(), handins=()) -> Grades:
    """The gradebook's records, of the roster's students and of this run's hand-ins."""
    table = book.records()
    if people:
        shown = {one.student for one in handins} | {person.student for person in people}
        table = {student: row for student, row in table.items() if student in shown}
    grades = Grades(book, table, list(people))
    found = read_adjustments(book.folder / "adjust.csv", grades.students, lab_named)
    grades.adjustments, grades.questions = found
    return grades


def _one_result(grades, handins, options):
    students = sorted({one.student for one in handins})
    if len(students) != 1:
        who = ", ".join(students[:3])
        raise Problem(f"{len(students)} students ({who}): a result is one student's; --student")
    of = sorted({one.lab for one in handins})
    records = list(filter(None, (grades.record(students[0], lab) for lab in of)))
    if options.gradescope:
        replace_file(options.gradescope.resolve(), gradescope_results(records).encode())
    if options.classroom50:
        replace_file(options.classroom50.resolve(), classroom50_result(records).encode())
    print(pages.student_text(grades, students[0], of))


def _table(grades):
    """A line for each student."""
    rows = [["Student", *grades.labs]]
    for student in grades.students[:MOST_LINES]:
        scores = [grades.score(student, lab) for lab in grades.labs]
        rows.append([clean(student, 28), *("-" if score is None else score for score in scores)])
    print(*columns(rows, "l" + "r" * len(grades.labs), gap=3), sep="\n")
    if len(grades.students) > MOST_LINES:
        print(f"... and {len(grades.students) - MOST_LINES} more students")


# --- show, questions, doctor -------------------------------------------------------------------


def _opened(options, wanted):
    """(the grades, the one student of that name, in either order, or of whose name it is a part)"""
    grades = load_grades(Gradebook(options.out.resolve()))
    if not grades.table:
        raise Problem(f"no grades in {options.out}; `python -m grading run` makes some")
    those = named(grades.students, wanted)
    those = those or [name for name in grades.students if wanted.casefold() in name.casefold()]
    if wanted and len(those) != 1:
        some = ", ".join((those or grades.students)[:8])
        what = f"could be {some}; give more of the name" if those else f"is none of {some}, ..."
        raise Problem(f"'{wanted}' {what}")
    return grades, those[0]


def show(options) -> int:
    grades, student = _opened(options, options.student)
    wanted = [lab_named(options.lab)] if options.lab else grades.labs_of(student)
    print(student)
    print(pages.student_text(grades, student, wanted))
    for lab in wanted:
        if grades.record(student, lab):
            print(f"Record: {grades.book.path(student, lab)}, the program beside it")
    return FINE


def questions(options) -> int:
    grades, wanted = _opened(options, options.student or "")
    sheets = asked.sheets(grades.book, grades.table)
    folder = grades.book.folder / "questions"
    for student, sheet in sheets.items():
        if not options.student or student == wanted:
            path = folder / grades.book.path(student, "").with_suffix(".html").name
            replace_file(path, asked.as_page(student, sheet).encode())
    if options.student:
        print(asked.as_text(wanted, sheets.get(wanted, [])))
    else:
        print(f"{count(len(sheets), 'sheet')} in {folder}")
    return FINE


def doctor(options) -> int:
    """Grade the first lab's own solution and its untouched starter, as any hand-in is."""
    lab, good = next(iter(labs().values())), True
    for which, wanted in (("solution", 100), ("starter", 0)):
        points = grade(lab.file(which), lab.prefix, secret="")["points"]
        good &= wanted in (points["earned"], points["earned"] + points["not_run"])
        print(f"{lab.prefix}, {which}: {points['earned']} points, {wanted} expected")
    print(f"This machine {'can grade' if good else 'grades wrongly: see above'}.")
    return FINE if good else LOOK
