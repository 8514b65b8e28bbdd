"""What people read: one HTML page for each student, one for the class, and the same as text.

Each page stands alone: no script, no other file. Text of a hand-in is inert in it.
"""

from html import escape
from pathlib import Path
from statistics import median
from string import Template

from grading.gradebook import Grades, entry_of
from grading.text import clean, count, file_name
from labkit.claims import shown

WORDS = {"passed": "passed", "failed": "failed", "todo": "to do"}
WORDS |= {"waits": "waits", "not_run": "not run here"}
STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
$style</style>
</head>
<body>
$body</body>
</html>
""")


def page(title, *parts) -> str:
    return PAGE.substitute(title=html(title), style=STYLE, body="".join(parts))


def html(value) -> str:
    return escape(clean(value), quote=True)


def _cell(value, look="") -> str:
    return f'<td class="{look}">{html(value)}</td>' if look else f"<td>{html(value)}</td>"


def _table(title, head, rows) -> str:
    """Titles of columns, and the HTML of each row's cells, joined; "" without rows."""
    titles = "".join(f"<th>{title}</th>" for title in head)
    lines = "".join(f"<tr>{cells}</tr>\n" for cells in [titles, *rows])
    return f"{title and f'<h2>{title}</h2>'}\n<table>\n{lines}</table>\n" if rows else ""


# --- one student -------------------------------------------------------------------------------


def sentence(claim) -> str:
    """The claim's one line: what went wrong, and the mistake that gives the same result."""
    hint = f" Hint: {claim['hint']}." if claim["hint"] else ""
    return (claim["message"].rstrip(".") + "." * bool(hint) + hint).strip()


def next_step(record) -> str:
    """The one thing to do next."""
    entry = entry_of(record)
    if entry["broken"]:
        return "Nothing could be graded: " + entry["broken"]
    for outcome in ("failed", "todo"):
        for claim in entry["claims"]:
            if claim["outcome"] == outcome:
                return f"{shown(claim['text'], False)}: {sentence(claim)}"
    return "Nothing left to do in this lab."


def _about(grades: Grades, student, lab):
    """(the points and what belongs beside them, lines about the whole, rows of claims).

    A row is (outcome, points earned, points, claim, what went wrong).
    """
    record = grades.record(student, lab)
    line = f"{grades.score(student, lab)} of 100 points"
    if record and (not_run := entry_of(record)["points"]["not_run"]):
        line += f", {not_run} could not be run here"
    for one in grades.adjusted(student, lab):
        line += f"; {one.points:+d}: {one.why}"
    if record is None:
        return line, ["nothing was handed in"], []
    line, entry, rows = line + f"; {record['late']}" * bool(record["late"]), entry_of(record), []
    # why the file could not be loaded is said once, above, not once per claim
    for claim in entry["claims"] if not entry["broken"] else ():
        good = claim["outcome"] == "passed"
        text, wrong = shown(claim["text"], good), "" if good else sentence(claim)
        rows.append((claim["outcome"], claim["points"] * good, claim["points"], text, wrong))
    notes = [f"Note: {note}" for note in record["notes"]]
    return line, [f"Next: {next_step(record)}", *notes], rows


def student_text(grades: Grades, student, labs=()) -> str:
    """What `show` prints, and what a Canvas student gets back on top of their own file."""
    lines = []
    for lab in labs or grades.labs_of(student):
        line, told, rows = _about(grades, student, lab)
        lines += [f"{lab}: {clean(line)}", *(f"  {clean(one)}" for one in told)]
        for outcome, earned, points, text, wrong in rows:
            lines.append(f"  {WORDS[outcome]:>12} {earned:>3} / {points:<3} {clean(text)}")
            if outcome not in ("passed", "todo"):
                lines.append(f"  {'':20} {clean(wrong)}")
    return "\n".join(lines)


def student_page(grades: Grades, student) -> str:
    """One student's labs: score, next step, and a sentence for each claim that is not earned."""
    parts = [f"<h1>{html(student)}</h1>\n"]
    for lab in grades.labs_of(student):
        line, told, rows = _about(grades, student, lab)
        parts.append(f"<h2>{html(lab)}: {html(line)}</h2>\n")
        parts += [f'<p class="next">{html(one)}</p>\n' for one in told]
        cells = []
        for outcome, earned, points, text, wrong in rows:
            look = outcome if outcome in ("passed", "failed") else "todo"
            more = f'<br><span class="soft">{html(wrong)}</span>' if wrong else ""
            cells.append(_cell(WORDS[outcome], f"word {look}") + _cell(f"{earned} / {points}", "n"))
            cells[-1] += f"<td>{html(text)}{more}</td>"
        parts.append(_table("", ("Result", "Points", "Claim"), cells))
        if record := grades.record(student, lab):
            of = record["handin"], f"sha256 {entry_of(record)['sha256'][:12]}", record["graded_at"]
            parts.append(f'<p class="soft">Graded: {html(", ".join(of))}.</p>\n')
    return page(student, *parts)


# --- the class ---------------------------------------------------------------------------------


def class_page(grades: Grades) -> str:
    """Who needs a look, everybody's points, what was missed by whom, and what equals what."""
    records = grades.handed_in()
    told = [f"{count(len(grades.students), 'student')}, {count(len(records), 'hand-in')}"]
    for lab in grades.labs:
        scores = [grades.score(s, lab) for s, of, _ in records if of == lab]
        told += [f"{lab}: {len(scores)}, median {median(scores):g}"] if scores else []
    parts = [f'<h1>Grades</h1>\n<p class="soft">{html("; ".join(told))}.</p>\n']
    rows = [f"<td>{_link(grades, who)}</td>{_cell(why)}" for who, why in _need_a_look(grades)]
    parts.append(_table("Who needs a look first", ("Who", "Why"), rows))
    rows = []
    for student in grades.students:
        marks = "".join(f'<td class="n">{_mark(grades, student, lab)}</td>' for lab in grades.labs)
        rows.append(f"<td>{_link(grades, student)}</td>{marks}{_cell(grades.total(student), 'n')}")
    parts.append(_table("Students", ("Student", *grades.labs, "Total"), rows))
    equal = "What is equal, without formatting and names of variables"
    for title, head, found in (
        ("Claims that were missed, and by whom", "Claim", _missed(grades)),
        ("The same program", equal, grades.alike),
    ):
        rows = []
        for lab, what, who in found:
            whose = ", ".join(_link(grades, student) for student in who)
            rows.append(f"{_cell(lab)}{_cell(what)}{_cell(len(who), 'n')}<td>{whose}</td>")
        parts.append(_table(title, ("Lab", head, "Students", "Who"), rows))
    return page("Grades", *parts)


def _link(grades, who):
    if who not in grades.students:
        return html(who)
    return f'<a href="{escape(file_name(who), quote=True)}.html">{html(who)}</a>'


def _need_a_look(grades):
    """Questions that only the instructor can answer, then who has no points, with the reason."""
    rows = list(grades.questions)
    for student, lab, record in grades.handed_in():
        why = list(record["notes"])
        if grades.score(student, lab) <= 0:
            why += ["no points", next_step(record)]
        rows += [(student, f"{lab}: {'. '.join(why)}")] if why else []
    return list(dict.fromkeys(rows))


def _mark(grades, student, lab):
    """A score, with what an instructor should see beside it."""
    score, record = grades.score(student, lab), grades.record(student, lab)
    beside = [f"{one.points:+d}" for one in grades.adjusted(student, lab)]
    beside += ["late"] * bool(record and record["late"])
    beside += ["not readable"] * bool(record and entry_of(record)["broken"])
    soft = f' <span class="soft">{html(", ".join(beside))}</span>' if beside else ""
    return f"{'not handed in' if score is None else score}{soft}"


def _missed(grades):
    """(lab, claim, who failed it) of each, those that most failed first."""
    missed = {}
    for student, lab, record in grades.handed_in():
        for claim in entry_of(record)["claims"] if not entry_of(record)["broken"] else ():
            if claim["outcome"] == "failed":
                missed.setdefault((lab, shown(claim["text"], False)), []).append(student)
    return sorted(((*key, who) for key, who in missed.items()), key=lambda row: -len(row[2]))
