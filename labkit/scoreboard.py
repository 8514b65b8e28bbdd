"""The screen at the end of a run: per lab its points, and each claim under the task it belongs to.

`--scores FILE` writes the same as JSON:

    {"schema": "lab-scores/1",
     "implementation": "solution" | "starter",
     "labs": [{"lab": str, "file": str, "sha256": str, "broken": str,
               "points": {"earned": int, "not_run": int, "not_reached": int,
                          "not_selected": int, "total": 100},
               "claims": [{"name": str, "text": str, "points": int, "task": int, "function": str,
                           "outcome": "passed" | "failed" | "todo" | "waits" | "not_run",
                           "message": str, "hint": str, "waits_for": [str], "printed": str}]}]}

`broken` is why the file could not be loaded, else "". A claim with several cases earns its points
when every case passed. Points not run here are never earned. `not_reached`: selected, but the run
was stopped (Ctrl-C or -x) before it ran. task is 0 for a claim that belongs to no single task.
"""

import itertools
import json
import os
import textwrap
from pathlib import Path

import pytest

from labkit.claims import settle, shown
from labkit.loading import sha256
from labkit.tasks import line_of, task_of_check, tasks_of

WIDTH = 80
TOTAL = 100
LOOK = {
    "passed": ("passed", {"green": True}),
    "failed": ("FAILED", {"red": True, "bold": True}),
    "todo": ("todo", {"yellow": True}),
    "waits": ("waits", {"yellow": True}),
    "not_run": ("not run", {"cyan": True}),
}
NOT_EARNED = {
    "not_run": "{} not run here",
    "not_reached": "stopped, {} not reached",
    "not_selected": "{} not selected",
}
KEYS = ("name", "text", "points", "task", "function")
KEYS += ("outcome", "message", "hint", "waits_for", "printed")


def score_lab(lab, which, cases, unreached=()):
    """One lab's entry of the scoreboard from the records of its cases (labkit.claims).

    `unreached`: the tests with a case that was selected and never run, and their points.
    """
    unreached = dict(unreached)
    claims = settle(cases, unreached)
    lost = unreached.keys() - {claim["name"] for claim in claims}
    points = dict.fromkeys(("earned", "not_run"), 0)
    for claim in claims:
        if claim["outcome"] in ("passed", "not_run"):
            points["earned" if claim["outcome"] == "passed" else "not_run"] += claim["points"]
        task = task_of_check(lab, claim["name"])
        claim.update(task=task.number if task else 0, function=task.function if task else "")
        claim.setdefault("printed", "")
    points["not_reached"] = sum(unreached[name] for name in lost)
    known = sum(claim["points"] for claim in claims) + points["not_reached"]
    points["not_selected"] = TOTAL - known
    points["total"] = TOTAL
    path = lab.file(which)
    return {
        "lab": lab.name,
        "file": path.name,
        "sha256": sha256(path) if path.exists() else "",
        "broken": next((claim["broken"] for claim in claims if claim["broken"]), ""),
        "points": points,
        "claims": [{key: claim[key] for key in KEYS} for claim in claims],
    }


class Scoreboard:
    """Collects claims (from xdist workers too), prints them, writes `--scores`."""

    def __init__(self, labs, which, scores_file):
        self.labs = labs
        self.which = which
        self.scores_file = scores_file and Path(scores_file).absolute()
        self.cases = {}  # node id -> record; teardown failures overwrite
        self.order = {}
        self.selected = {}  # node id -> (lab, test name, points); not known under xdist

    def pytest_collection_finish(self, session):
        labs = {lab.path: lab.name for lab in self.labs}
        for item in session.items:
            mark = item.get_closest_marker("points")
            if mark and item.path.parent in labs:
                self.selected[item.nodeid] = labs[item.path.parent], item.originalname, mark.args[0]

    def pytest_runtest_logreport(self, report):
        claim = getattr(report, "claim", None)
        if claim is not None:
            self.cases[report.nodeid] = claim
            # the order of test_lab.py, whichever worker was first
            self.order[report.nodeid] = report.location[1] or 0

    def entries(self):
        for lab in self.labs:
            ids = [i for i, case in self.cases.items() if case["lab"] == lab.name]
            if ids:
                ids.sort(key=self.order.get)
                cases = [self.cases[i] for i in ids]
                yield lab, score_lab(lab, self.which, cases, self._unreached(lab.name))

    def _unreached(self, lab_name):
        for nodeid, (lab, test, points) in self.selected.items():
            if lab == lab_name and nodeid not in self.cases:
                yield test, points

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session, exitstatus):
        """`--open-tasks-ok`: where the rest is only still to be written, the run ends well."""
        result = yield
        if session.config.getoption("open_tasks_ok") and exitstatus == 1:
            claims = [claim for _, entry in self.entries() for claim in entry["claims"]]
            wrong = [claim for claim in claims if claim["outcome"] == "failed"]
            if claims and not wrong and len(self.cases) >= session.testscollected:
                session.exitstatus = 0
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter, config):
        # A learner reads one sentence per failed claim; --tb brings the tracebacks back.
        entries = list(self.entries())
        waiting = {c["name"] for _, e in entries for c in e["claims"] if c["outcome"] == "waits"}
        stats = terminalreporter.stats
        kept = {key: list(stats.get(key, [])) for key in ("failed", "error")}
        if config.getoption("tbstyle") == "auto":
            for key, reports in kept.items():
                stats[key] = [report for report in reports if not hasattr(report, "claim")]
        result = yield
        for key, reports in kept.items():
            waits = [r for r in reports if getattr(r, "claim", {}).get("name") in waiting]
            stats.setdefault("waits", []).extend(waits)
            stats[key] = [report for report in reports if report not in waits]
        for key in ("failed", "error", "waits"):
            if not stats.get(key):
                stats.pop(key, None)
        if entries and self.which == "solution" and "LAB_IMPL" not in os.environ:
            terminalreporter.ensure_newline()
            terminalreporter.write_line("")
            terminalreporter.write_line(
                "These are the reference solutions. LAB_IMPL=starter grades your files."
            )
        only = config.getoption("at_hand")
        for lab, entry in entries:
            Screen(terminalreporter, lab, self.which, entry).draw(only)
        if self.scores_file:
            self._write([entry for _, entry in entries])
        return result

    def _write(self, entries):
        scores = {"schema": "lab-scores/1", "implementation": self.which, "labs": entries}
        text = json.dumps(scores, indent=2, ensure_ascii=False) + "\n"
        partial = self.scores_file.with_name(self.scores_file.name + ".part")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, self.scores_file)


class Screen:
    """One lab's part of the screen."""

    def __init__(self, out, lab, which, entry):
        self.out, self.lab, self.which, self.entry = out, lab, which, entry

    def draw(self, only_at_hand=False):
        self._title()
        if self.entry["broken"]:
            self._sentence("cannot be graded: " + self.entry["broken"], red=True)
            return
        at_hand = self._at_hand()
        for task, claims in itertools.groupby(self.entry["claims"], key=lambda c: c["task"]):
            if not only_at_hand or at_hand and at_hand["task"] == task:
                self._task(task, list(claims))
        self._next(at_hand)

    def _title(self):
        points = self.entry["points"]
        score = f"{points['earned']}/{points['total']} points"
        for key, text in NOT_EARNED.items():
            if points[key]:
                score += ", " + text.format(points[key])
        self.out.ensure_newline()
        self.out.write_line("")
        title = f"{self.entry['lab']}  {self.entry['file']} {self.entry['sha256'][:12]}"
        full = points["earned"] == points["total"]
        self.out.write(title, bold=True)
        gap = WIDTH - len(title) - len(score)
        self.out.write(" " * gap if gap > 1 else "\n  ")
        self.out.write_line(score, green=full, yellow=not full)

    def _task(self, number, claims):
        """A heading and the claims; what is not yet begun of a task is one line."""
        names = ", ".join(dict.fromkeys(claim["function"] for claim in claims))
        heading = f"task {number} · {names}" if number else ""
        todo = [claim for claim in claims if claim["outcome"] == "todo"]
        could_run = [claim for claim in claims if claim["outcome"] != "not_run"]
        if heading and todo and todo == could_run:
            self._line("todo", sum(claim["points"] for claim in todo), heading)
            claims = [claim for claim in claims if claim["outcome"] == "not_run"]
        elif heading:
            self._sentence(heading, indent=2, bold=True)
        for claim in claims:
            self._claim(claim)

    def _claim(self, claim):
        text = shown(claim["text"], claim["outcome"] == "passed")
        self._line(claim["outcome"], claim["points"], text)
        if claim["message"] and claim["outcome"] != "todo":
            self._sentence(claim["message"])
        if claim["hint"]:
            self._sentence("Hint: " + claim["hint"] + ".", yellow=True)
        if claim["printed"]:
            self._sentence("Your code printed:", cyan=True)
            for line in claim["printed"].splitlines():
                self.out.write_line(" " * 15 + line[: WIDTH - 15])

    def _line(self, outcome, points, text):
        word, look = LOOK[outcome]
        self.out.write(f"  {word:>7}", **look)
        first, *rest = textwrap.wrap(text, WIDTH - 15)
        self.out.write_line(f" {points:>3}  {first}")
        for line in rest:
            self.out.write_line(" " * 15 + line)

    def _at_hand(self):
        """The first failed claim, or the first of the lowest open task; None when all is done."""
        claims = self.entry["claims"]
        failed = [claim for claim in claims if claim["outcome"] == "failed"]
        open_ = [claim for claim in claims if claim["outcome"] in ("todo", "waits")]
        return next(iter(failed), None) or min(open_, key=lambda c: c["task"] or 99, default=None)

    def _next(self, claim):
        if self.which == "solution":
            return
        if claim is None:
            if self.entry["points"]["earned"] == TOTAL:
                self._sentence("next: " + self._after(), indent=2)
            return
        function = claim["function"]
        task = tasks_of(self.lab).get(function)
        if not task:
            return
        where = f"{self.entry['file']}:{line_of(self.lab, self.which, function)}"
        self._sentence(
            f"next: task {task.number}, {function}, {where} (about {task.size}). README.md and the "
            f"book (make serve) explain it; pytest {self.lab.prefix} --hint {function} helps a "
            "little",
            indent=2,
        )

    def _after(self):
        """What follows a finished lab, in the order that the labs' order.txt has."""
        order = self.lab.path.parent / "order.txt"
        names = order.read_text(encoding="utf-8").split() if order.exists() else []
        done = "compare your predictions, try the bug hunt in the book"
        if self.lab.name in names[:-1]:
            following = names[names.index(self.lab.name) + 1]
            return f"{done}, then {following}"
        return done

    def _sentence(self, text, indent=15, **look):
        pad = " " * indent
        wrapped = textwrap.wrap(text, WIDTH, initial_indent=pad, subsequent_indent=pad)
        for line in wrapped:
            self.out.write_line(line, **look)
