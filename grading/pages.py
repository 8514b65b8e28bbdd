"""The HTML pages: one for each student, one index. Each stands alone: no script, no other file."""

from collections import Counter
from html import escape
from statistics import median

from grading.feedback import LABELS, common_mistakes, handed_in, next_step, score, sentence
from grading.hidden import SAME_FOR_ALL
from grading.sanitise import clean, file_name
from labkit.svg import Drawing

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2024; --soft: #5f6872; --line: #d9dee3; --back: #fff;
  --good: #1a7f4b; --bad: #b3261e; --wait: #7a5a00; --bar: #3566a8; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e9ec; --soft: #a3acb5; --line: #3a4149;
  --back: #16191c; --good: #63c995; --bad: #ff8f85; --wait: #e3b94f; --bar: #7aa7e0; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin: 0; }} h2 {{ font-size: 1.15rem; margin: 2rem 0 .5rem; }}
p {{ margin: .4rem 0; }} .soft {{ color: var(--soft); font-size: .875rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .35rem .8rem .35rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }}
th {{ font-weight: 600; }} td.n, th.n {{ text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }}
td.word {{ white-space: nowrap; font-weight: 600; }}
.passed {{ color: var(--good); }} .failed {{ color: var(--bad); }} .todo {{ color: var(--wait); }}
.next {{ border-left: 3px solid var(--bar); padding: .2rem .8rem; margin: .8rem 0; }}
a {{ color: inherit; }} figure {{ margin: 0; }} svg {{ display: block; max-width: 100%; }}
.c0 {{ fill: var(--bar); }} .t-muted {{ fill: var(--soft); }}
</style>
</head>
<body>
"""
_END = "</body>\n</html>\n"
_LOOK = dict.fromkeys(("todo", "waits", "not_run"), "todo")
_LOOK |= {"passed": "passed", "adjusted": "adjusted"}


def _text(value) -> str:
    return escape(clean(value), quote=True)


def _cell(value, look="") -> str:
    """A cell of text that is not HTML yet; `look` is its class, such as n for numbers."""
    return f"<td{_class(look)}>{_text(value)}</td>"


def _class(look):
    return f' class="{look}"' if look else ""


def _table(head, rows) -> str:
    """`head`: (title, class) of each column; `rows`: the HTML of each one's cells, joined."""
    titles = "".join(f"<th{_class(look)}>{title}</th>" for title, look in head)
    lines = [f"<tr>{cells}</tr>\n" for cells in ([titles] if head else []) + rows]
    return "<table>\n" + "".join(lines) + "</table>\n"


def student_page(student, records) -> str:
    """One student's labs: score, next step, and a sentence for each claim that is not earned."""
    parts = [_HEAD.format(title=_text(student)), f"<h1>{_text(student)}</h1>\n"]
    for record in records:
        parts.append(f"<h2>{_text(record['lab_name'])}: {_text(score(record))}</h2>\n")
        parts.append(f'<p class="next">Next: {_text(next_step(record))}</p>\n')
        # why the file could not be loaded is said once, above, not once per claim
        rows = [_claim(claim) for claim in record["claims"] if not claim["broken"]]
        parts.append(_table([("Result", ""), ("Points", "n"), ("Claim", "")] if rows else [], rows))
        parts.append(
            f'<p class="soft">File {_text(record["source_sha256"][:12])}, tests '
            f"{_text(record['tests_sha256'][:12])}, integrity: {_text(record['integrity'])}.</p>\n"
        )
    return "".join(parts) + _END


def _claim(claim) -> str:
    more = "" if claim["outcome"] == "passed" else _text(sentence(claim))
    more = f'<br><span class="soft">{more}</span>' if more else ""
    return (
        _cell(LABELS[claim["outcome"]], f"word {_LOOK.get(claim['outcome'], 'failed')}")
        + _cell(f"{claim['earned']} / {claim['points']}", "n")
        + f"<td>{_text(claim['text'])}{more}</td>"
    )


def index_page(grades) -> str:
    """Everyone's scores, their distribution, and the most common mistakes."""
    records, students = grades.records, grades.by_student()
    labs = sorted({record["lab"] for record in records})
    there = [record for record in records if handed_in(record)]
    parts = [_HEAD.format(title="Grades"), "<h1>Grades</h1>\n"]
    parts.append(f'<p class="soft">{len(students)} students, {len(there)} submissions.</p>\n')
    for lab in labs:
        scores = [record["score"] for record in there if record["lab"] == lab]
        if scores:
            count = f"{len(scores)} submissions, median {median(scores):g}"
            parts.append(f"<h2>{lab}: {count}</h2>\n" + _histogram(scores))
    mistakes, claims = (
        [_cell(count, "n") + _cell(lab, "word") + _cell(what) for lab, what, count in rows[:10]]
        for rows in common_mistakes(records)
    )
    # The claims whose numbers are the published ones: a table of answers would earn them.
    same = [(lab, *row) for lab in labs for row in SAME_FOR_ALL.get(lab, {}).items()]
    same = [_cell(lab, "word") + _cell(name) + _cell(why) for lab, name, why in same]
    waiting = ["".join(map(_cell, row)) for row in grades.waiting]
    counted = [("Students", "n"), ("Lab", "")]
    for title, head, rows in (
        ("Most common mistakes", [*counted, ("What the result equals", "")], mistakes),
        ("Claims most often missed", [*counted, ("Claim", "")], claims),
        ("The same numbers for everybody", [("Lab", ""), ("Check", ""), ("Why", "")], same),
        ("Not graded yet", [], waiting),
    ):
        parts.append(f"<h2>{title}</h2>\n{_table(head, rows)}" if rows else "")
    rows = []
    for student, row in students.items():
        marks = "".join(f'<td class="n">{_mark(row.get(lab))}</td>' for lab in labs)
        total = sum(record["score"] for record in row.values() if record)
        link = f'<a href="{file_name(student)}.html">{_text(student)}</a>'
        rows.append(f"<td>{link}</td>{marks}{_cell(total, 'n')}")
    head = [("Student", ""), *((lab, "n") for lab in labs), ("Total", "n")]
    return "".join(parts) + f"<h2>Students</h2>\n{_table(head, rows)}" + _END


def _mark(record):
    """A score, with what an instructor should see beside it."""
    if not record:
        return ""
    marks = [f"{claim['earned']:+d}" for claim in record["claims"] if claim["name"] == "adjustment"]
    marks += ["late"] * bool(record.get("late"))
    marks += ["not readable"] * any(c["outcome"] == "unreadable" for c in record["claims"])
    if marks:
        return f'{record["score"]} <span class="soft">{_text(", ".join(marks))}</span>'
    return str(record["score"]) if handed_in(record) else "not handed in"


def _histogram(scores) -> str:
    """Eleven bars, 0-9 to 90-99 and 100, with their numbers in it."""
    counts = Counter(min(score // 10, 10) for score in scores)
    names = [*(f"{10 * i}-{10 * i + 9}" for i in range(10)), "100"]
    drawing = Drawing(532, 112)
    for i, name in enumerate(names):
        x, height = 4 + i * 48, 70 * counts[i] / max(counts.values())
        if counts[i]:
            drawing.rect(x, 90 - height, 40, height, "c0")
            drawing.text(x + 20, 84 - height, str(counts[i]), "muted", size=12)
        drawing.text(x + 20, 106, name, "muted", size=12)
    said = ", ".join(f"{name} points: {counts[i]}" for i, name in enumerate(names) if counts[i])
    return drawing.figure(f"Submissions by score. {said}") + "\n"
