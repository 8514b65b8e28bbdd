"""Lab 04's drawings: true to the code, well formed, in the colours of the page."""

import shutil
from xml.etree import ElementTree

import pytest

from labkit.loading import ROOT, choose_lab, find_labs, load_module
from labkit.starters import derive
from labkit.tasks import hints_of, tasks_of
from tests.conftest import python

LAB = choose_lab("lab-04", find_labs())
SVG = "{http://www.w3.org/2000/svg}"
solution, grid = map(load_module, (LAB.file("solution"), LAB.path / "grid.py"))


def run_grid(*arguments, folder=LAB.path, **environment):
    return python("grid.py", *arguments, cwd=folder, **environment)


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
    assert refused.stderr == "grid.py: p must be a whole number, 1 or more, not 0\n"
    unknown = run_grid("4", "8", LAB_IMPL="solutoin")
    says = "grid.py: LAB_IMPL='solutoin': it is 'solution' (the default) or 'starter'\n"
    assert (unknown.returncode, unknown.stdout, unknown.stderr) == (2, "", says)


def test_below_the_grid_stand_decoding_and_the_boxes():
    """Of 4 stages 2 requests keep half at work; a ring over 32 ranks makes 2 x 31 steps."""
    *_, decoding, hops = run_grid("4", "2").stdout.splitlines()
    assert decoding == "decoding with 2 in the loop: 50.0% of the stages' time is work"
    says = f"3 with TP8 x PP4, {80 * 2 * 2 * 31:,} with TP32"
    assert hops == f"hops a token between 4 boxes of 8, 80 layers: {says}"


TASK_2 = "def schedule_grid(p, m):\n    return [[0, 1, None], [None, 0, 1]]\n"
TODO = "    raise NotImplementedError('{} is yours to write')\n"


def test_the_grid_is_drawn_before_the_later_tasks_are_done(draw_starter, tmp_path):
    source = TASK_2 + "def grid_bubble(grid):\n" + TODO.format("grid_bubble")
    done = draw_starter(source, "2", "2", "--svg", str(tmp_path / "new.svg"))
    assert (done.returncode, done.stderr) == (0, "")
    says, _, drawn = done.stdout.partition("\n")
    assert says == "by your starter.py of lab 04 (LAB_IMPL=solution runs the reference)"
    assert drawn.startswith(
        "rank 0  0 1 .\nrank 1  . 0 1\n"
        "3 ticks, 2 of 6 cells idle: bubble not counted (grid_bubble is yours to write)\n"
    )
    assert ElementTree.parse(tmp_path / "new.svg").getroot().tag == f"{SVG}svg"


def test_an_order_is_drawn_before_its_activations_are_counted(draw_starter):
    source = "def gpipe_order(p, m):\n    return [[('F', 0, 0)]]\n"
    source += "def replay(order):\n    return [[('F', 0, 0)]]\n"
    source += "def grid_bubble(grid):\n    return 0\n"
    source += "def peak_live_activations(order):\n" + TODO.format("peaks")
    done = draw_starter(source, "1", "1", "--schedule", "gpipe")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [
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
    assert "bubble not counted (uneven)\n" in done.stdout


def test_every_function_has_three_hints_and_no_docstring_tells_the_formula():
    assert list(hints_of(LAB)) == list(tasks_of(LAB))
    assert all(len(parts) == 3 and all(parts) for parts in hints_of(LAB).values())
    starter = derive(LAB)
    for formula in ("p - 1 - r", "p-1-r", "(v-1)", "(p-1)/", "p + m - 1", "2 (tp-1)/"):
        assert formula not in starter, formula
