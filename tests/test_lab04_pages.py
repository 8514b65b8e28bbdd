"""Lab 04's drawings and README: true to the code, well formed, in the colours of the page."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from labkit.loading import ROOT, choose_lab, find_labs, load_module
from labkit.mistakes import read_bank
from labkit.starters import derive
from labkit.tasks import hints_of, tasks_of

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


def flat(text):
    return re.sub(r"\s+", " ", text)


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


@pytest.mark.parametrize("schedule", grid.TITLES)
@pytest.mark.parametrize("p, m", [(1, 1), (3, 6)])
def test_svg_holds_every_cell_once_and_stays_in_its_frame(schedule, p, m):
    cells, _ = grid.build(solution, schedule, p, m)
    root = ElementTree.fromstring(grid.svg(cells, "a < b"))
    rects = [r for r in root.iter(f"{SVG}rect") if "edge" in r.get("class")]
    idle = [r for r in rects if "idle" in r.get("class")]
    ops = {(rank, c) for rank, row in enumerate(cells) for c in row if c is not None}
    assert len(idle) == sum(row.count(None) for row in cells)
    assert len(rects) - len(idle) == len(ops)
    area = sum(float(r.get("width")) for r in rects) / grid.CELL_W
    assert area == sum(map(len, cells))
    pale = [r for r in rects if "soft" in r.get("class")]
    odd = [c for _, c in ops if isinstance(c, tuple) and c[1] // p % 2]
    assert len(pale) == len(odd)
    width, height = map(float, root.get("viewBox").split()[2:])
    for r in root.iter(f"{SVG}rect"):
        x, y = float(r.get("x", 0)), float(r.get("y", 0))
        assert 0 <= x <= x + float(r.get("width")) <= width
        assert 0 <= y <= y + float(r.get("height")) <= height
    for text in root.iter(f"{SVG}text"):
        long = 6 * len(text.text)  # about
        left = float(text.get("x")) - long * (text.get("text-anchor") == "end")
        right = float(text.get("x")) + long * (text.get("text-anchor") == "start")
        assert -6 <= left and right <= width and float(text.get("y")) <= height
    assert root.get("role") == "img" and "a < b" in root.get("aria-label")


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
            f"| {name} | {100 * float(bill['bubble']):.1f}% | {bill['local_hops']} "
            f"| {bill['node_hops']} | {int(bill['bytes_between_nodes']):,} |"
        )
        assert row in README


def test_readme_answers_are_true():
    tenth = Fraction(1, 10)
    assert f"{8 - 1}/{8 + 63 - 1} is exactly 10%" in README
    assert solution.min_microbatches(8, tenth) == 63
    assert solution.min_microbatches(8, tenth, strict=True) == 64
    assert solution.bubble_fraction(8, 63) == Fraction(7, 70)
    assert solution.makespan_s([1, 1, 1, 1], 8) == 11
    assert {solution.makespan_s(s, 8) for s in ([2, 1, 1, 1], [1, 1, 1, 2])} == {19}
    assert 1 - Fraction(8 * 5, 4 * 19) == Fraction(9, 19)
    interleaved = solution.interleaved_order(4, 8, 2)
    assert solution.grid_bubble(solution.replay(interleaved)) == Fraction(3, 19)
    assert solution.peak_live_activations(interleaved)[0] == 11
    assert solution.peak_live_activations(solution.one_f_one_b_order(4, 8))[0] == 4
    crossings = {
        v: len({stage for _, stage, _ in sum(o, [])}) - 1
        for v, o in ((1, solution.one_f_one_b_order(4, 8)), (2, interleaved))
    }
    assert f"crosses the network {crossings[2]} times instead of {crossings[1]}" in flat(README)
    for said in ("63: 7/70", "19 ticks", "9/19 = 47%", "3/19 instead of 3/11", "rank 0 holds 11"):
        assert said in flat(README), said


def test_readme_tells_the_price_of_tp_across_nodes():
    tp = solution.plan_bill(16, 1, 8, 80, 8192, 1, 64)["bytes_between_nodes"]
    pp = solution.plan_bill(8, 2, 8, 80, 8192, 1, 64)["bytes_between_nodes"]
    lab03 = load_module(choose_lab("lab-03", find_labs()).file("solution"))
    waits = 2 * lab03.step_messages(80, 1, 8192, 2)[0]  # between two nodes a ring makes two hops
    assert f"In bytes it is {tp / pp} to 1 with one flat ring" in flat(README)
    assert f"which waits for the network {waits} times" in flat(README)
    nodes = [rank // 8 for rank in range(16)]
    leaves = [one != other for one, other in pairwise([*nodes, nodes[0]])]  # the ring's 16 links
    way = max(sum(leaves[(start + hop) % 16] for hop in range(30)) for start in range(16))
    assert f"leaves a node at most {way} times in 30 steps, which makes {160 * way} waits" in flat(
        README
    )


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


def test_readme_names_every_task_and_spoils_no_prediction():
    tasks = README[README.index("<!-- tasks -->") : README.index("<!-- /tasks -->")]
    assert set(re.findall(r"`(\w+)`", tasks)) >= set(tasks_of(LAB)) and len(tasks_of(LAB)) == 15
    before = flat(README[: README.index("## Predict first")])
    for answer in ("p - 1 hops", "(p-1)", "(p - 1)", "p - r", "does not matter", "63", "600"):
        assert answer not in before, answer
    stretch = README[README.index("## Schedules of training") :]
    explained = stretch[: stretch.index("<summary>")]
    for word in ("*GPipe*", "*1F1B*", "*Interleaving*"):
        assert word in explained
    assert f"holds {len(read_bank(LAB).mistakes)} plausible wrong versions" in README
    for path in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (LAB.path / path).exists(), path


def test_every_function_has_three_hints_and_no_docstring_tells_the_formula():
    assert list(hints_of(LAB)) == list(tasks_of(LAB))
    assert all(len(parts) == 3 and all(parts) for parts in hints_of(LAB).values())
    starter = derive(LAB)
    for formula in ("p - 1 - r", "p-1-r", "(v-1)", "(p-1)/", "p + m - 1", "2 (tp-1)/"):
        assert formula not in starter, formula
