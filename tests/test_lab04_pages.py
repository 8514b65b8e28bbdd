"""Lab 04's drawings and README: true to the code, well formed, in the colours of the page."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from xml.etree import ElementTree

import pytest

from labkit.loading import ROOT, choose_lab, find_labs, load_module
from labkit.starters import derive

LAB = choose_lab("lab-04", find_labs())
README = (LAB.path / "README.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"
solution = load_module(LAB.file("solution"))


def load_grid():
    spec = importlib.util.spec_from_file_location("lab04_grid", LAB.path / "grid.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


grid = load_grid()


def run_grid(*arguments, folder=LAB.path, **environment):
    clean = {k: v for k, v in os.environ.items() if k != "LAB_IMPL"}
    return subprocess.run(
        [sys.executable, "grid.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env=clean | environment,
    )


@pytest.fixture
def draw_starter(tmp_path):
    """Run a copy of grid.py beside a starter of one's own."""
    folder = tmp_path / "labs" / LAB.name
    folder.mkdir(parents=True)
    shutil.copy(LAB.path / "grid.py", folder)

    def draw(source, *arguments):
        (folder / "starter.py").write_text(source, encoding="utf-8")
        environment = {"LAB_IMPL": "starter", "PYTHONPATH": str(ROOT)}
        return run_grid(*arguments, folder=folder, **environment)

    return draw


# --- text and SVG -------------------------------------------------------------------------------


def test_text_shows_microbatches_ops_and_idle():
    assert grid.text([[0, 1, None], [None, 0, 1]]) == "rank 0  0 1 .\nrank 1  . 0 1"
    ops = [[("F", 0, 0), None], [None, ("B", 3, 10)]]
    assert grid.text(ops) == "rank 0    F0    .\nrank 1     . 3B10"


@pytest.mark.parametrize("schedule", grid.SCHEDULES)
@pytest.mark.parametrize("p, m", [(1, 1), (3, 6)])
def test_svg_holds_every_cell_once_and_stays_in_its_frame(schedule, p, m):
    cells, _ = grid.build(solution, schedule, p, m)
    root = ElementTree.fromstring(grid.svg(cells, "a < b"))
    rects = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    titles = [r.find(f"{SVG}title").text for r in rects]
    ops = {(rank, c) for rank, row in enumerate(cells) for c in row if c is not None}
    assert titles.count("idle") == sum(row.count(None) for row in cells)
    assert len(titles) - titles.count("idle") == len(ops) == len(set(titles) - {"idle"})
    width, height = map(float, root.get("viewBox").split()[2:])
    for r in root.iter(f"{SVG}rect"):
        assert 0 <= float(r.get("x")) <= float(r.get("x")) + float(r.get("width")) <= width
        assert 0 <= float(r.get("y")) <= float(r.get("y")) + float(r.get("height")) <= height
    for text in root.iter(f"{SVG}text"):
        left = float(text.get("x")) - 7 * len(text.text) * (text.get("class") == "rank")
        right = float(text.get("x")) + 7 * len(text.text) * (text.get("class") == "title")
        assert -6 <= left and right <= width and float(text.get("y")) <= height
    assert root.get("role") == "img" and "a < b" in root.get("aria-label")


def test_colours_come_from_the_page():
    style = grid.STYLE
    own_page = style.index("svg.pg:root")  # what follows holds only for a drawing on its own
    assert "currentColor" in style[:own_page]
    for rule in style[:own_page].splitlines():
        for value in re.findall(r"(?:fill|stroke): ([^;}]+)", rule):
            assert value.strip().startswith(("var(--", "currentColor")), rule


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("forward", []),
        ("gpipe", ["--schedule", "gpipe"]),
        ("1f1b", ["--schedule", "1f1b"]),
        ("interleaved", ["--schedule", "interleaved"]),
    ],
)
def test_figures_are_what_the_program_draws_today(name, arguments, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("LAB_IMPL", raising=False)
    grid.main(["4", "8", *arguments, "--svg", str(tmp_path / "new.svg")])
    assert "wrote" in capsys.readouterr().out
    assert (tmp_path / "new.svg").read_bytes() == (LAB.path / f"figures/{name}.svg").read_bytes()


def test_the_program_says_in_one_line_what_is_wrong():
    refused = run_grid("0", "8")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "grid.py: p=0: give a whole number, 1 or more\n"
    unknown = run_grid("4", "8", LAB_IMPL="solutoin")
    says = "grid.py: LAB_IMPL='solutoin': it is 'solution' (the default) or 'starter'\n"
    assert (unknown.returncode, unknown.stdout, unknown.stderr) == (2, "", says)


TASK_2 = "def schedule_grid(p, m):\n    return [[0, 1, None], [None, 0, 1]]\n"
TODO = "    raise NotImplementedError('{} is yours to write')\n"


def test_the_grid_is_drawn_before_the_later_tasks_are_done(draw_starter, tmp_path):
    source = TASK_2 + "def grid_bubble(grid):\n" + TODO.format("grid_bubble")
    done = draw_starter(source, "2", "2", "--svg", str(tmp_path / "new.svg"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "rank 0  0 1 .\nrank 1  . 0 1\n"
        "3 ticks, 2 of 6 cells idle: bubble not counted (grid_bubble is yours to write)\nwrote "
    )
    assert ElementTree.parse(tmp_path / "new.svg").getroot().tag == f"{SVG}svg"


def test_an_order_is_drawn_before_its_activations_are_counted(draw_starter):
    source = "def gpipe_order(p, m):\n    return [[('F', 0, 0)]]\n"
    source += "def replay(order):\n    return [[('F', 0, 0)]]\n"
    source += "def grid_bubble(grid):\n    return 0\n"
    source += "def peak_live_activations(order):\n" + TODO.format("peaks")
    done = draw_starter(source, "1", "1", "--schedule", "gpipe")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "rank 0  F0",
        "1 ticks, 0 of 1 cells idle: bubble 0 = 0.0%",
        "peak live activations per rank: not counted (peaks is yours to write)",
    ]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def schedule_grid(p, m)\n", "starter.py line 1: expected ':'"),
        ("import numpyy\n", "starter.py line 1: ModuleNotFoundError: "),
        ("def schedule_grid(p, m):\n" + TODO.format("grid"), "grid is yours to write"),
        ("def schedule_grid(p, m):\n    return [][p]\n", "starter.py line 2: IndexError: "),
        ("def schedule_grid(p, m):\n    return None\n", "no grid to draw: your"),
        ("def schedule_grid(p, m):\n    return [[]]\n", "no grid to draw: "),
        ("def schedule_grid(p, m):\n    return [['0']]\n", "no grid to draw: "),
    ],
)
def test_a_grid_that_cannot_be_drawn_is_one_line(draw_starter, source, says):
    done = draw_starter(source, "2", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"grid.py: {says}") and done.stderr.count("\n") == 1


def test_an_uneven_draft_is_drawn_and_its_bubble_refused(draw_starter):
    source = "def schedule_grid(p, m):\n    return [[0, 1], [None, 0, 1], []]\n"
    source += "def grid_bubble(grid):\n    raise ValueError('uneven')\n"
    done = draw_starter(source, "3", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "rank 1  . 0 1\nrank 2  \n3 ticks, 1 of 5 cells idle" in done.stdout
    assert done.stdout.endswith("bubble not counted (uneven)\n")


# --- the README's numbers -----------------------------------------------------------------------


def test_readme_shows_what_the_program_prints(capsys, monkeypatch):
    monkeypatch.delenv("LAB_IMPL", raising=False)
    grid.main(["4", "8"])
    assert f"$ python grid.py 4 8\n{capsys.readouterr().out}```" in README


def test_readme_plan_table_is_plan_bill():
    plans = {
        "TP=16": (16, 1),
        "TP=8 x PP=2": (8, 2),
        "TP=4 x PP=4": (4, 4),
        "TP=2 x PP=8": (2, 8),
        "PP=16": (1, 16),
    }
    for name, (tp_size, pp_size) in plans.items():
        bill = solution.plan_bill(tp_size, pp_size, 8, 80, 8192, 1, 64)
        assert bill["num_nodes"] == 2
        row = (
            f"| {name} | {100 * float(bill['bubble']):.1f} % | {bill['local_hops']} "
            f"| {bill['node_hops']} | {int(bill['bytes_between_nodes']):,} |"
        )
        assert row in README


def test_readme_answers_are_true():
    tenth = Fraction(1, 10)
    assert solution.min_microbatches(8, tenth) == 63
    assert solution.min_microbatches(8, tenth, strict=True) == 64
    assert solution.bubble_fraction(8, 63) == Fraction(7, 70)
    assert solution.makespan_s([1, 1, 1, 1], 8) == 11
    assert {solution.makespan_s(s, 8) for s in ([2, 1, 1, 1], [1, 1, 1, 2])} == {19}
    assert 1 - Fraction(8 * 5, 4 * 19) == Fraction(9, 19)
    interleaved = solution.interleaved_order(4, 8, 2)
    assert solution.grid_bubble(solution.replay(interleaved)) == Fraction(3, 19)
    assert solution.peak_live_activations(interleaved)[0] == 11
    for said in ("63: 7/70", "19 ticks", "9/19 = 47 %", "3/19 instead of 3/11", "rank 0 holds 11"):
        assert said in re.sub(r"\s+", " ", README), said


def test_readme_quotes_the_published_and_the_measured(monkeypatch):
    facts = [
        json.loads(line) for line in (LAB.path / "measurements.jsonl").read_text().splitlines()
    ]
    assert all(fact["source"] and fact["unit"] for fact in facts)
    values = {fact["id"]: fact["value"] for fact in facts}
    assert f"at {values['tppp-l4-tp2pp4']:.0f} tokens/s with TP=2 x PP=4" in README
    assert f"at {values['tppp-l4-tp4pp2']:.0f} with TP=4 x PP=2" in README
    assert f"{values['tppp-a100-tp4pp1']} s with TP=4 and {values['tppp-a100-tp2pp2']} s" in README
    monkeypatch.syspath_prepend(str(LAB.path))
    import measure_pipeline

    record = json.loads((LAB.path / "captures/gloo-pipeline/run.json").read_text())
    assert f"```text\n{measure_pipeline.table(record['summary'])}\n```" in README


def test_readme_points_and_sizes_are_those_of_the_lab():
    tests = LAB.file("test_lab").read_text(encoding="utf-8")
    points = [int(n) for n in re.findall(r"@pytest\.mark\.points\((\d+)\)", tests)]
    column = re.findall(r"^\|.*\| *([\d +]+)(?:, with task 11)? \|$", README, re.MULTILINE)
    assert sum(points) == sum(int(n) for cell in column for n in cell.split("+")) == 100
    starter = derive(LAB)  # the file itself may be a learner's by now
    lines = dict(re.findall(r"lab-04 · (\w+) is yours to write \(about (\d+) lines\)", starter))
    rows = re.findall(r"^\| \d+ \| (.*) \| (\d+) \|[^|]*\|$", README, re.MULTILINE)
    assert len(lines) == 15 and len(rows) == 13
    for names, size in rows:
        functions = [name for name in re.findall(r"`(\w+)`", names) if name in lines]
        assert int(size) == sum(int(lines.pop(name)) for name in functions), names
    assert not lines
    mistakes = re.findall(r"^def \w+__\w+", LAB.file("mistakes").read_text(), re.MULTILINE)
    assert f"holds {len(mistakes)} plausible wrong versions" in README
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (LAB.path / path).exists(), path
