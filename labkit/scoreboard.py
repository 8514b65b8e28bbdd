"""The scoreboard at the end of a run: per lab which file was graded, its points, and each claim.

`--scores FILE` writes the same as JSON:

    {"schema": "lab-scores/1",
     "implementation": "solution" | "starter",
     "labs": [{"lab": str, "file": str, "sha256": str, "broken": str,
               "points": {"earned": int, "not_run": int, "not_reached": int,
                          "not_selected": int, "total": 100},
               "claims": [{"name": str, "text": str, "points": int,
                           "outcome": "passed" | "failed" | "todo" | "waits" | "not_run",
                           "message": str, "hint": str, "waits_for": [str]}]}]}

`broken` is why the file could not be loaded, else "". A claim with several cases earns its points
when every case passed. Points not run here are never earned. Not reached is what was selected
when the run was stopped, by Ctrl-C or by -x.
"""

import json
import os
import textwrap
from pathlib import Path

import pytest

from labkit.loading import sha256

WIDTH = 80
TOTAL = 100
# worst first: a claim is as good as its worst case
ORDER = ("failed", "todo", "waits", "not_run", "passed")
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


def score_lab(lab, which, cases, unreached=()):
    """One lab's entry of the scoreboard from the records of its cases (labkit.plugin._claim).

    `unreached`: the tests with a case that was selected and never run, and their points.
    """
    unreached, claims = dict(unreached), {}
    for case in cases:
        claim = claims.setdefault(case["name"], dict(case))
        if ORDER.index(case["outcome"]) < ORDER.index(claim["outcome"]):
            claims[case["name"]] = dict(case)
    for name in unreached.keys() & claims.keys():
        if claims[name]["outcome"] == "passed":  # so far
            del claims[name]
        else:
            del unreached[name]
    passed = {name for name, claim in claims.items() if claim["outcome"] == "passed"}
    for claim in claims.values():
        blocking = [name for name in claim["waits_for"] if name in claims and name not in passed]
        if claim["outcome"] == "failed" and blocking and not claim["broken"]:
            text = claims[blocking[0]]["text"]
            claim.update(outcome="waits", message=f"waits for: {text}", hint="")
    path = lab.file(which)
    points = dict.fromkeys(("earned", "not_run"), 0)
    for claim in claims.values():
        if claim["outcome"] == "passed":
            points["earned"] += claim["points"]
        elif claim["outcome"] == "not_run":
            points["not_run"] += claim["points"]
    points["not_reached"] = sum(unreached.values())
    known = sum(claim["points"] for claim in claims.values()) + points["not_reached"]
    points["not_selected"] = TOTAL - known
    points["total"] = TOTAL
    keys = ("name", "text", "points", "outcome", "message", "hint", "waits_for")
    return {
        "lab": lab.name,
        "file": path.name,
        "sha256": sha256(path) if path.exists() else "",
        "broken": next((claim["broken"] for claim in claims.values() if claim["broken"]), ""),
        "points": points,
        "claims": [{key: claim[key] for key in keys} for claim in claims.values()],
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
                yield score_lab(lab, self.which, cases, self._unreached(lab.name))

    def _unreached(self, lab_name):
        for nodeid, (lab, test, points) in self.selected.items():
            if lab == lab_name and nodeid not in self.cases:
                yield test, points

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter, config):
        # A learner reads one sentence per failed claim; --tb brings the tracebacks back.
        hidden = config.getoption("tbstyle") == "auto"
        kept = {key: terminalreporter.stats.get(key, []) for key in ("failed", "error")}
        if hidden:
            for key, reports in kept.items():
                others = [report for report in reports if not hasattr(report, "claim")]
                terminalreporter.stats[key] = others
        try:
            result = yield
        finally:
            for key, reports in kept.items():
                if reports:
                    terminalreporter.stats[key] = reports
                else:
                    terminalreporter.stats.pop(key, None)
        entries = list(self.entries())
        for entry in entries:
            self._draw(terminalreporter, entry)
        if self.scores_file:
            scores = {"schema": "lab-scores/1", "implementation": self.which, "labs": entries}
            text = json.dumps(scores, indent=2, ensure_ascii=False) + "\n"
            partial = self.scores_file.with_name(self.scores_file.name + ".part")
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, self.scores_file)
        return result

    def _draw(self, out, entry):
        points = entry["points"]
        score = f"{points['earned']}/{points['total']} points"
        for key, text in NOT_EARNED.items():
            if points[key]:
                score += ", " + text.format(points[key])
        out.ensure_newline()
        out.write_line("")
        title = f"{entry['lab']}  {entry['file']} {entry['sha256'][:12]}"
        full = points["earned"] == points["total"]
        out.write(title, bold=True)
        gap = WIDTH - len(title) - len(score)
        out.write(" " * gap if gap > 1 else "\n  ")
        out.write_line(score, green=full, yellow=not full)
        if entry["broken"]:
            self._sentence(out, "cannot be graded: " + entry["broken"], red=True)
            return
        first_todo = ""
        for claim in entry["claims"]:
            word, look = LOOK[claim["outcome"]]
            out.write(f"  {word:>7}", **look)
            out.write_line(f" {claim['points']:>3}  {claim['text']}")
            if claim["outcome"] == "todo":
                first_todo = first_todo or claim["message"]
            elif claim["message"]:
                self._sentence(out, claim["message"])
            if claim["hint"]:
                self._sentence(out, "Hint: " + claim["hint"] + ".", yellow=True)
        if first_todo:
            self._sentence(out, "next: " + first_todo, indent=2)

    def _sentence(self, out, text, indent=15, **look):
        pad = " " * indent
        lines = textwrap.wrap(text, WIDTH, initial_indent=pad, subsequent_indent=pad)
        for line in lines:
            out.write_line(line, **look)
