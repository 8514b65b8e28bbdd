"""Lab 04's recorded runs: whole, made by what is here, and reconciled with the solution."""

import json
import re

import pytest

from labkit.loading import choose_lab, find_labs, load_module
from labkit.ranks import RanksFailed
from tests.conftest import as_recorded, python

LAB = choose_lab("lab-04", find_labs())
CAPTURES = LAB.path / "captures"
solution, script = map(load_module, (LAB.file("solution"), LAB.path / "measure_pipeline.py"))
OP = re.compile(r"(\d+)([FB])(\d+)")


def orders():
    return json.loads((CAPTURES / "torch-schedules" / "orders.json").read_text())


def parse(ranks):
    found = [[OP.fullmatch(word) for word in rank.split()] for rank in ranks]
    return [[(op[2], int(op[1]), int(op[3])) for op in rank if op] for rank in found]


# --- provenance ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["torch-schedules", "gloo-pipeline"])
def test_a_capture_says_where_it_comes_from_and_is_whole(name):
    facts = as_recorded(CAPTURES / name)
    for key in ("command", "what", "date", "git_commit"):
        assert facts[key], f"{name}: provenance lacks {key}"
    versions = facts.get("versions", facts)  # these were recorded before versions had a place
    assert versions["python"] and versions["torch"].startswith("2.13.0")


# --- torch's schedules --------------------------------------------------------------------------


def test_orders_cover_every_schedule_and_size():
    rows = orders()
    sizes = {(p, p * k) for p in (2, 3, 4, 6, 8) for k in (1, 2, 4)}
    named = {(name, 1) for name in ("GPipe", "1F1B", "1F1B runtime")}
    named |= {("LoopedBFS", 2), ("ZBVZeroBubble", 2)}
    named |= {("Interleaved1F1B", v) for v in (2, 4)}
    expected = {(name, v, p, m) for name, v in named for p, m in sizes}
    assert {(r["schedule"], r["v"], r["p"], r["m"]) for r in rows} == expected
    assert len(rows) == len(expected) == 105
    word = re.compile(r"\.|\d+([FBIW]\d+|REDUCE_GRAD)")
    for row in rows:
        assert len(row["ranks"]) == row["p"]
        assert all(word.fullmatch(w) for rank in row["ranks"] for w in rank.split())


def test_published_1f1b_is_wrong_on_the_last_rank_and_nowhere_else():
    published = [row for row in orders() if row["schedule"] == "1F1B"]
    runtime = [row for row in orders() if row["schedule"] == "1F1B runtime"]
    assert len(published) == len(runtime) == 15
    for one, other in zip(published, runtime, strict=True):
        assert (one["p"], one["m"]) == (other["p"], other["m"])
        theirs, runs = parse(one["ranks"]), parse(other["ranks"])
        assert theirs[:-1] == runs[:-1]
        assert runs[-1] == [(k, s, i - (k == "F")) for k, s, i in theirs[-1]]
        with pytest.raises(ValueError, match="deadlock"):
            solution.replay(theirs)


def reconcile(schedule, order, p, m, v):
    """Torch's order is complete, has the bubble of the formula, and is ours, op for op."""
    assert not any(solution.audit_order(order, p * v, m).values())
    bubble = solution.grid_bubble(solution.replay(order))
    assert bubble == solution.bubble_fraction(p, v * m), (schedule, p, m, v)
    ours = {
        "GPipe": lambda: solution.gpipe_order(p, m),
        "1F1B runtime": lambda: solution.one_f_one_b_order(p, m),
        "Interleaved1F1B": lambda: solution.interleaved_order(p, m, v),
    }
    if schedule in ours:
        assert ours[schedule]() == order, (schedule, p, m, v)
    return 1


RECONCILED = ("GPipe", "1F1B runtime", "LoopedBFS", "Interleaved1F1B")


def test_captured_orders_reconcile():
    rows = [row for row in orders() if row["schedule"] in RECONCILED]
    assert 75 == sum(
        reconcile(row["schedule"], parse(row["ranks"]), row["p"], row["m"], row["v"])
        for row in rows
    )


# --- the real pipeline --------------------------------------------------------------------------


def test_the_recorded_pipeline_follows_the_formula():
    record = json.loads((CAPTURES / "gloo-pipeline" / "run.json").read_text())
    summary = script.summarise(record["runs"], solution.makespan_s)
    for made, recorded in zip(summary, map(dict, record["summary"]), strict=True):
        assert made.pop("stage_ms") == recorded.pop("stage_ms")
        assert made == pytest.approx(recorded, rel=2e-3)  # sum() is compensated since 3.12
    assert {len(row["stage_ms"]) for row in record["summary"]} == {1, 2, 3, 4}
    for row in record["summary"]:
        assert min(row["stage_ms"]) >= 50
        assert abs(row["slope_ms"] / row["slope_predicted_ms"] - 1) < 0.05
        slots_off = (row["intercept_ms"] - row["intercept_predicted_ms"]) / row["slope_ms"]
        assert abs(slots_off) < 0.3
    figure = (CAPTURES / "gloo-pipeline" / "figure.svg").read_text()
    assert figure == script.draw(record["runs"], solution.makespan_s)
    assert figure.count("<polyline") >= 5 and "50 50 100 50 ms" in figure


def test_a_redrawn_figure_says_so_and_keeps_what_was_recorded(tmp_path, monkeypatch):
    before = CAPTURES / "gloo-pipeline"
    for name in ("run.json", "provenance.json"):
        (tmp_path / name).write_bytes((before / name).read_bytes())
    monkeypatch.delenv("LAB_IMPL", raising=False)
    script.main(["--redraw", str(tmp_path)])
    old, new = (json.loads((f / "provenance.json").read_text()) for f in (before, tmp_path))
    assert new["redrawn"]["what"].startswith("figure.svg, from the recorded run.json")
    assert new["sha256"] == old["sha256"]  # the same drawing
    for facts in (old, new):
        facts.pop("redrawn")
    assert old == new


def test_a_line_is_fitted_exactly():
    slope, intercept = script.fit_line([(1, 5.0), (2, 7.0), (4, 11.0)])
    assert (round(slope, 9), round(intercept, 9)) == (2.0, 3.0)
    runs = [{"stage_ms": [50, 100], "seconds": {"1": [0.15, 9.0, 0.15], "3": [0.35] * 3}}]
    (row,) = script.summarise(runs, solution.makespan_s)  # one outlier does not move a median
    assert (row["slope_ms"], row["intercept_ms"]) == (100.0, 50.0)
    assert (row["slope_predicted_ms"], row["intercept_predicted_ms"]) == (100.0, 50.0)


@pytest.mark.torch
def test_a_pipeline_of_processes_is_recorded(tmp_path):
    out = tmp_path / "run"
    small = ["--ranks", "2", "--stage-ms", "2", "--microbatches", "1", "3", "--repeats", "2"]
    words = ("measure_pipeline.py", *small, "--no-straggler", "--out", out)
    done = python(*words, cwd=LAB.path, timeout=100)
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((out / "run.json").read_text())["runs"]
    assert run["stage_ms"] == [2.0, 2.0]
    # sleeping can only take longer than asked; how much longer is not this test's business
    assert all(t >= 0.004 for t in run["seconds"]["1"]) and len(run["seconds"]["1"]) == 2
    assert all(t >= 0.008 for t in run["seconds"]["3"]) and len(run["seconds"]["3"]) == 2
    facts = json.loads((out / "provenance.json").read_text())
    assert facts["versions"]["torch"] and set(facts["sha256"]) == {"run.json", "figure.svg"}


@pytest.mark.torch
def test_a_stage_that_dies_is_named():  # labkit.ranks leaves no process: test_ranks
    with pytest.raises(RanksFailed, match="rank 1: .*ValueError"):
        script.run_pipeline([0.001, -1], [2])  # nobody can sleep for less than nothing


def test_a_todo_is_said_before_anything_is_measured(tmp_path):
    starter = LAB.file("starter").read_text(encoding="utf-8")
    if "makespan_s is yours to write" not in starter:
        pytest.skip("the starter has been written")
    words = ("measure_pipeline.py", "--out", tmp_path / "run")
    done = python(*words, cwd=LAB.path, LAB_IMPL="starter")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("measure_pipeline.py: lab-04 · makespan_s is yours to write")


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["--ranks", "0"], "above 0"),
        (["--stage-ms", "0"], "above 0"),
        (["--microbatches", "4", "4"], "two or more different"),
    ],
)
def test_a_measurement_that_cannot_be_is_refused(arguments, says, capsys):
    with pytest.raises(SystemExit) as stop:
        script.main(arguments)
    assert stop.value.code == 2 and says in capsys.readouterr().err
