"""A grade is what plain pytest says at home of the same file, whatever the file is."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from grading import grade as core
from grading.cell import Cell, Limits, NoCell
from grading.grade import grade
from labkit.loading import ROOT, find_labs
from labkit.mistakes import read_bank
from tests.conftest import Course

LABS = {lab.prefix: lab for lab in find_labs()}
MISTAKES = 3  # of each lab's bank, spread over it
NO_ENGINES = {"LAB_VLLM_PYTHON": "none", "LAB_TORCH": "none"}
SAID = ("name", "outcome", "message", "hint", "waits_for", "printed")
pytestmark = pytest.mark.isolation


def hand_ins(lab):
    """The solution, the untouched starter and mistakes, each with its name."""
    solution, bank = (lab.file(which).read_text() for which in ("solution", "mistakes"))
    mistakes = read_bank(lab).mistakes
    chosen = mistakes[:: max(1, len(mistakes) // MISTAKES)][:MISTAKES]
    yield "solution", solution
    yield "starter", lab.file("starter").read_text()
    for mistake in chosen:
        yield mistake.name, f"{solution}\n\n{bank}\n\n{mistake.source}"


# before `without_engines` is set for the rest of this file
@pytest.mark.torch
@pytest.mark.timeout(200)
def test_a_schedule_of_lab_02_runs_on_gloo_here_too(monkeypatch):
    monkeypatch.setenv("LAB_VLLM_PYTHON", "none")
    lab = LABS["lab-02"]
    limits = Limits(files=498)  # of a pytest of its own: the others here are without engines
    claims = grade(lab.file("solution"), lab.name, secret="5e", limits=limits)["claims"]
    (claim,) = [claim for claim in claims if claim["name"].endswith("run_on_gloo")]
    assert claim["outcome"] == "passed", claim


SLOW = [pytest.param(p, marks=pytest.mark.slow) for p in sorted(LABS) if p != "lab-01"]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("prefix", ["lab-01", *SLOW])
def test_every_lab_is_graded_as_pytest_does_at_home(prefix, without_engines, tmp_path):
    """Points, outcome, message, hint and what was printed, word for word, on published numbers."""
    lab = LABS[prefix]
    course = Course(tmp_path, lab.path.relative_to(ROOT))
    scores, different = tmp_path / "scores.json", []
    for name, source in hand_ins(lab):
        course.starter.write_text(source)
        course.pytest(course.lab, "--scores", scores, impl="starter", **NO_ENGINES)
        (home,) = json.loads(scores.read_text())["labs"]
        entry = grade(course.starter, lab.name, secret="")
        assert entry["points"] == home["points"] and entry["sha256"] == home["sha256"]
        for ours, claim in zip(entry["claims"], home["claims"], strict=True):
            different += [(name, ours[key], claim[key]) for key in SAID if ours[key] != claim[key]]
    assert different == []


def test_a_pytest_that_was_killed_costs_nobody_points(without_engines):
    lab = LABS["lab-01"]
    grade(lab.file("solution"), lab.name, secret="")
    os.kill(core._idle[lab, core.USUAL][-1].process.pid, signal.SIGKILL)
    assert grade(lab.file("solution"), lab.name, secret="")["points"]["earned"] == 100


def test_threads_grade_side_by_side(without_engines):
    lab = LABS["lab-01"]
    with ThreadPoolExecutor(3) as pool:
        files = [lab.file(which) for which in ("solution", "starter", "solution")]
        entries = list(pool.map(lambda file: grade(file, lab.name, secret="ab"), files))
    assert [entry["points"]["earned"] for entry in entries] == [100, 0, 100]


def test_without_a_cell_there_is_no_grade(monkeypatch, tmp_path):
    lab = LABS["lab-01"]
    with monkeypatch.context() as here, pytest.raises(NoCell, match="install bubblewrap"):
        here.setattr("grading.cell.command", lambda lab, limits: ["/nowhere/bwrap"])
        Cell(lab, Limits())
    refuses = tmp_path / "bwrap"
    refuses.write_text("#!/bin/sh\necho no namespaces >&2\nexit 1\n")
    refuses.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    limits = Limits(files=499)  # of a pytest of its own
    with pytest.raises(NoCell, match="no namespaces"):
        grade(lab.file("solution"), lab.name, secret="", limits=limits)
