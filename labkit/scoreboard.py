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
import re
import textwrap
from pathlib import Path

import pytest

from labkit.claims import settle, shown
from labkit.loading import sha256
from labkit.session import STATE
from labkit.tasks import is_open, line_of, task_of_check, tasks_of

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
UNWRITTEN = re.compile(r"· (\w+) is yours to write")
NEEDED = re.compile(r"it needs (\w+)[, ]")  # of a claim whose prerequisite was not selected
KEYS = ("name", "text", "points", "task", "function")
KEYS += ("outcome", "message", "hint", "waits_for", "printed", "drawing")


def score_lab(lab, which, cases, unreached):
    """One lab's entry of the scoreboard from the records of its cases (labkit.claims).

    `unreached`: the points of the tests with a case that was selected and never run, by name.
    """
    claims = settle(cases, unreached)
    lost = unreached.keys() - {claim["name"] for claim in claims}
    points = {"earned": 0, "not_run": 0, "not_reached": sum(unreached[name] for name in lost)}
    points |= {"not_selected": TOTAL - points["not_reached"], "total": TOTAL}
    for claim in claims:
        points["not_selected"] -= claim["points"]
        if claim["outcome"] in ("passed", "not_run"):
            points["earned" if claim["outcome"] == "passed" else "not_run"] += claim["points"]
        task = task_of_check(lab, claim["name"])
        claim.update(task=task.number if task else 0, function=task.function if task else "")
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
        self.cases = {}  # node id -> (line of test_lab.py, record); teardown failures overwrite
        self.selected = {}  # node id -> (lab, test name, points); not known under xdist

    def pytest_collection_finish(self, session):
        for item in session.items:
            mark, lab = item.get_closest_marker("points"), session.config.stash[STATE].lab_of(item)
            if mark and lab:
                self.selected[item.nodeid] = lab.name, item.originalname, mark.args[0]

    def pytest_runtest_logreport(self, report):
        claim = getattr(report, "claim", None)
        if claim is not None:
            self.cases[report.nodeid] = report.location[1] or 0, claim

    def entries(self):
        left = [test for nodeid, test in self.selected.items() if nodeid not in self.cases]
        # the order of test_lab.py, whichever worker was first
        cases = [claim for _, claim in sorted(self.cases.values(), key=lambda case: case[0])]
        for lab in self.labs:
            if own := [claim for claim in cases if claim["lab"] == lab.name]:
                unreached = {test: points for of, test, points in left if of == lab.name}
                yield lab, score_lab(lab, self.which, own, unreached)

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
        self._draw(terminalreporter, entries, config.getoption("at_hand"))
        if self.scores_file:
            self._write([entry for _, entry in entries])
        return result

    def _draw(self, out, entries, only_at_hand):
        """One lab's whole screen; of several starters' only that of the labs at work."""
        course = sorted(entries, key=lambda one: place_in_course(one[0]))
        complete = [lab.name for lab, one in course if complete_but_for_its_stretch(lab, one)]
        screens = [Screen(out, lab, self.which, entry, complete) for lab, entry in course]
        if self.which == "solution" or len(screens) < 2:
            for screen in screens:
                screen.draw(only_at_hand)
            return
        out.ensure_newline()
        out.write_line("")
        at_work = [screen for screen in screens if not (screen.done or screen.fresh)]
        for screen in screens:
            if screen not in at_work:
                screen.title()
        for screen in at_work:
            screen.draw(only_at_hand, last=False)
        unfinished = [screen for screen in screens if not screen.done]
        # labs of which only the stretch is left come last
        unfinished.sort(key=lambda one: complete_but_for_its_stretch(one.lab, one.entry))
        if unfinished:
            unfinished[0].invite()

    def _write(self, entries):
        scores = {"schema": "lab-scores/1", "implementation": self.which, "labs": entries}
        text = json.dumps(scores, indent=2, ensure_ascii=False) + "\n"
        partial = self.scores_file.with_name(self.scores_file.name + ".part")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, self.scores_file)


class Screen:
    """One lab's part of the screen."""

    def __init__(self, out, lab, which, entry, complete=()):
        self.out, self.lab, self.which, self.entry = out, lab, which, entry
        self.complete = complete  # names of labs of this run

    @property
    def done(self):
        """Everything has passed that this machine can run."""
        return self.entry["points"]["earned"] + self.entry["points"]["not_run"] == TOTAL

    @property
    def fresh(self):
        """Nothing of it is written yet."""
        return {claim["outcome"] for claim in self.entry["claims"]} <= {"todo", "not_run"}

    def draw(self, only_at_hand=False, last=True):
        """last: with the line that says what is next."""
        self.out.ensure_newline()
        self.out.write_line("")
        self.title()
        if self.entry["broken"]:
            self._sentence("cannot be graded: " + self.entry["broken"], red=True)
            return
        at_hand = self._at_hand()
        for task, claims in itertools.groupby(self.entry["claims"], key=lambda c: c["task"]):
            if not only_at_hand or at_hand and at_hand["task"] == task:
                self._task(task, list(claims))
        if last and self.which == "starter":
            for line in self._next(at_hand):
                self._sentence(line, indent=2)

    def invite(self):
        """What to do now, at the end of a run of several labs."""
        lines = [f"cannot be graded: {self.entry['broken']}"] if self.entry["broken"] else []
        lines = lines or list(self._next(self._at_hand()))
        self.out.write_line("")
        what, _, stuck = " ".join(lines).removeprefix("next: ").partition(" Stuck? ")
        self._sentence(f"Now you, {self.lab.prefix}: {what}", indent=0, bold=True)
        self.out.write_line(f"  {_near(self.lab.file('starter'))}")
        short = self.lab.prefix.removeprefix("lab-")
        watch = f"(make watch LAB={short} grades at every save)"
        self.out.write_line(f"  make lab LAB={short}    {watch}")
        if stuck:
            self.out.write_line(f"  pytest {self.lab.prefix} {stuck}    (an idea)")

    def title(self):
        points = self.entry["points"]
        score = f"{points['earned']}/{points['total']} points"
        for key, text in NOT_EARNED.items():
            if points[key]:
                score += ", " + text.format(points[key])
        title = f"{self.entry['lab']}  {self.entry['file']} {self.entry['sha256'][:12]}"
        full = points["earned"] == points["total"]
        self.out.write(title, bold=True)
        gap = WIDTH - len(title) - len(score)
        self.out.write(" " * gap if gap > 1 else "\n  ")
        self.out.write_line(score, green=full, yellow=not full)

    def _task(self, number, claims):
        """A heading and the claims; what is not yet begun of a task is one line."""
        names = list(dict.fromkeys(claim["function"] for claim in claims))
        heading = f"task {number} · {', '.join(names)}" if number else ""
        todo = [claim for claim in claims if claim["outcome"] == "todo"]
        could_run = [claim for claim in claims if claim["outcome"] != "not_run"]
        if heading and todo and todo == could_run:
            found = {match[1] for claim in todo if (match := UNWRITTEN.search(claim["message"]))}
            if found and not any(is_open(self.lab, name) for name in names):
                heading += f" (it calls {', '.join(sorted(found))}, which you have not written yet)"
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
        for line in claim["drawing"].splitlines():
            self.out.write_line((" " * 15 + line).rstrip())
        if claim["hint"]:
            self._sentence("Hint: " + claim["hint"] + ".", yellow=True)
        if claim["printed"]:
            self._sentence("Your code printed:", cyan=True)
            for line in claim["printed"].splitlines():
                more = "…" * (len(line) > WIDTH - 15)
                self.out.write_line(" " * 15 + line[: WIDTH - 15 - len(more)] + more)

    def _line(self, outcome, points, text):
        word, look = LOOK[outcome]
        self.out.write(f"  {word:>7}", **look)
        first, *rest = textwrap.wrap(text, WIDTH - 15)
        self.out.write_line(f" {points:>3}  {first}")
        for line in rest:
            self.out.write_line(" " * 15 + line)

    def _at_hand(self):
        """The first failed claim, or the first of the lowest open task, stretch tasks last; None
        when all is done.
        """
        tasks, claims = tasks_of(self.lab), self.entry["claims"]
        for claim in claims:
            if claim["outcome"] == "failed":
                return claim
        open_ = [claim for claim in claims if claim["outcome"] in ("todo", "waits")]
        order = lambda claim: (_is_stretch(tasks, claim), claim["task"] or 99)  # noqa: E731
        return min(open_, key=order, default=None)

    def _next(self, claim):
        """The lines that say what is next; claim is the one at hand, None when all have passed."""
        if claim is not None:
            tasks = tasks_of(self.lab)
            first = UNWRITTEN.search(claim["message"]) or NEEDED.match(claim["message"])
            if task := tasks.get(first and first[1]) or tasks.get(claim["function"]):
                yield from self._proper(task)
                yield self._next_task(task)
            return
        points = self.entry["points"]
        if not is_whole(self.entry):
            open_ = [t for t in tasks_of(self.lab).values() if is_open(self.lab, t.function)]
            if open_:
                yield self._next_task(min(open_, key=lambda task: task.stretch))
            else:
                yield f"next: pytest {self.lab.prefix} grades the whole lab"
            return
        if points["not_run"]:
            waiting = [c["message"] for c in self.entry["claims"] if c["outcome"] == "not_run"]
            reasons = "; ".join(dict.fromkeys(waiting))
            yield f"All that this machine can run has passed. The rest: {reasons}."
        if points["earned"] == TOTAL:
            count = len(tasks_of(self.lab))
            yield f"{self.lab.prefix} is complete: {count} functions, and every claim holds."
            if reward := course_of(self.lab).get(self.lab.name):
                yield f"now: {reward}"
        yield f"next: {self._after()}"

    def _proper(self, task):
        """Where only stretch tasks are left: the lab without them is complete, and counts apart."""
        tasks = tasks_of(self.lab)
        proper = [c for c in self.entry["claims"] if not _is_stretch(tasks, c)]
        if is_whole(self.entry) and task.stretch and all(c["outcome"] == "passed" for c in proper):
            counted = sum(c["points"] for c in proper)
            yield (
                f"{self.lab.prefix} without its stretch is complete: {counted} of {counted} "
                f"points. The stretch is {TOTAL - counted} more, for whoever wants them; else: "
                f"{self._after()}."
            )

    def _next_task(self, task):
        line = line_of(self.lab, self.which, task.function)
        file = self.entry["file"]
        where = f"{file}:{line}" if line else f"{file} has no `def {task.function}` any more"
        return (
            f"next{' (stretch)' * task.stretch}: task {task.number}, {task.function}, {where} "
            f"(about {task.size}). "
            f"Stuck? --hint {task.function}"
        )

    def _after(self):
        """What follows a finished lab."""
        names = list(course_of(self.lab))
        later = names[names.index(self.lab.name) + 1 :] if self.lab.name in names else []
        if later := [name for name in later if name not in self.complete]:
            return f"{later[0]}, or this lab's bug hunts in the book"
        return "make labs, which shows what you have built"

    def _sentence(self, text, indent=15, **look):
        pad = " " * indent
        wrapped = textwrap.wrap(text, WIDTH, initial_indent=pad, subsequent_indent=pad)
        for line in wrapped:
            self.out.write_line(line, **look)


def is_whole(entry):
    """Whether the run took every check of the lab."""
    return not any(entry["points"].get(key) for key in ("not_selected", "not_reached"))


def complete_but_for_its_stretch(lab, entry):
    """Whether every claim that is open belongs to a stretch task; also when none is open."""
    tasks, done = tasks_of(lab), ("passed", "not_run")
    return is_whole(entry) and all(
        c["outcome"] in done or _is_stretch(tasks, c) for c in entry["claims"]
    )


def _is_stretch(tasks, claim):
    return claim["function"] in tasks and tasks[claim["function"]].stretch


def course_of(lab):
    """{name of a lab beside this one: what to run when it is complete}, in the course's order."""
    order = lab.path.parent / "order.txt"
    lines = order.read_text(encoding="utf-8").splitlines() if order.exists() else []
    return {name: reward.strip() for name, _, reward in (line.partition(":") for line in lines)}


def place_in_course(lab):
    names = list(course_of(lab))
    return names.index(lab.name) if lab.name in names else len(names)


def _near(path):
    """A path as seen from here, where that is shorter."""
    return min(str(path), os.path.relpath(path), key=len)
