"""Labs that run in the page: the same checks, points and sentences, from a folder and served."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from book_checks import expect_figures_fit, expect_no_sideways_scroll, expect_no_violation
from labbook.bundle import LABS, pieces_of
from labbook.labs import lab

from labkit.loading import ROOT
from labkit.mistakes import load_bank
from labkit.starters import copy_course, derive, plant
from labkit.tasks import tasks_of

pytestmark = pytest.mark.timeout(300)  # the first one builds the book
browser_test = pytest.mark.browser
PAGES = {"lab-02": "lab-02", "lab-03": "lab-03", "lab-04": "lab-04", "lab-06": "hangs"}


def numbers(prefix):
    return {name: task.number for name, task in tasks_of(lab(prefix)).items()}


def whole(pieces):
    return "".join(piece["text"] for piece in pieces)


@pytest.mark.parametrize("prefix", LABS)
def test_a_starter_is_cut_by_tasks_and_nothing_of_it_is_lost(prefix):
    text = derive(lab(prefix))
    pieces = pieces_of(text, numbers(prefix))
    assert whole(pieces) == text
    tasks = [piece["task"] for piece in pieces if piece["task"]]
    assert tasks == sorted(set(numbers(prefix).values()))
    for name, task in numbers(prefix).items():
        (piece,) = [piece for piece in pieces if f"def {name}(" in piece["text"]]
        assert piece["task"] == task
    for piece in pieces:
        at = [k for k, line in enumerate(text.split("\n")) if line.startswith(piece["anchor"])]
        cut = text.split("\n")[at[0] - piece["back"] :]
        assert len(at) == 1 and "\n".join(cut).startswith(piece["text"])


def written(prefix):
    """What somebody writes for each task: the solution's text between the pieces' first lines."""
    pieces = pieces_of(derive(lab(prefix)), numbers(prefix))
    lines = lab(prefix).file("solution").read_text("utf-8").split("\n")
    first = [next(k for k, x in enumerate(lines) if x.startswith(p["anchor"])) for p in pieces[1:]]
    starts = [0] + [at - piece["back"] for at, piece in zip(first, pieces[1:], strict=True)]
    ends = [*starts[1:], len(lines)]
    return {
        piece["task"]: "\n".join(lines[start:end])
        for piece, start, end in zip(pieces, starts, ends, strict=True)
        if piece["task"]
    }


# --- in a browser -------------------------------------------------------------------------------


@pytest.fixture
def visit(browser, built):
    """visit(url, theme, width): a page of its own storage; `.requests` is all it asks for."""
    if not (built / "python" / "pyodide.js").is_file():
        pytest.skip("not run here: needs Python for the pages: make pyodide")
    contexts = []

    def opener(url, theme="light", width=1280):
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.requests, page.said = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("console", lambda said: said.type == "error" and page.said.append(said.text))
        page.on("dialog", lambda dialog: dialog.accept())
        page.add_init_script(f"localStorage.setItem('mdbook-theme', '{theme}')")
        page.goto(url, wait_until="load")
        assert not any("/python/" in address for address in page.requests), "before a click"
        return page

    yield opener
    for context in contexts:
        (page,) = context.pages
        own = page.url.rpartition("/")[0]
        elsewhere = [a for a in page.requests if not a.startswith((own, "blob:"))]
        context.close()
        assert not elsewhere


def box(page, task=None):
    which = f'[task="{task}"]' if task else ":not([task])"
    return page.locator(f"lab-task{which}")


def at_rest(page, task):
    # What was kept is read first, and then the box becomes its button or a text area.
    box(page, task).and_(page.locator(".asked:not([aria-busy])")).wait_for()


def write(page, task, text):
    at_rest(page, task)
    if begin := box(page, task).get_by_role("button", name="Write task").all():
        begin[0].click()
    box(page, task).locator("textarea").fill(text)


def run(page, task=None):
    """What is said at the end of a run, and all claims."""
    box(page, task).get_by_role("button", name="Run").click()
    box(page, task).and_(page.locator(":not([aria-busy])")).wait_for(timeout=120_000)
    return box(page, task).get_by_role("status").inner_text(), [
        claim.inner_text().split("\n") for claim in box(page, task).locator(".claims > li").all()
    ]


def only(page, prefix, tasks=()):
    """A lab's places instead of the page's own: another page would start Python anew."""
    page.evaluate(
        """([lab, tasks]) => {
            document.querySelectorAll('lab-task').forEach(box => box.remove());
            const of = tasks.map(task => `<lab-task lab="${lab}" task="${task}"></lab-task>`);
            document.querySelector('main').insertAdjacentHTML('beforeend',
                `<lab-task lab="${lab}"></lab-task>${of.join('')}`);
        }""",
        [prefix, list(tasks)],
    )


def expect_all_points(page, prefix):
    """From the stubs, each task pasted in its place; what needs Torch or vLLM is not run here."""
    texts = written(prefix)
    page.evaluate(
        "lab => readerStorage.names(`lab-task:${lab}:`).map(readerStorage.remove)", prefix
    )
    only(page, prefix, texts)
    for task, text in texts.items():
        write(page, task, text)
    said, claims = run(page)
    points = re.fullmatch(rf"{prefix}: (\d+) of 100 points(?:, (\d+) not run here)?\.", said)
    assert points and int(points[1]) + int(points[2] or 0) == 100, said
    assert all(re.match("passed|not run", lines[0]) for lines in claims)


def test_every_task_has_its_place_in_the_chapters(built):
    for prefix in LABS:
        pattern = rf'<lab-task lab="{prefix}" task="(\d+)"'
        text = "".join(
            page.read_text("utf-8") for page in built.glob("*.html") if page.stem != "print"
        )
        assert {int(task) for task in re.findall(pattern, text)} == set(written(prefix))


def redrawn(page, number):
    """(the figure, what is said) after the switch was pressed."""
    switch = page.locator("lab-redraw").nth(number)
    switch.get_by_role("button").click()
    switch.and_(page.locator(":not([aria-busy])")).wait_for()
    figure = switch.evaluate("e => e.previousElementSibling.outerHTML")
    return re.sub(r"\s+(?=<)", "", figure), switch.locator(".status").text_content()


def expect_figures_by_their_code(page, right):
    """By right code they are the book's; wrong results are drawn; an exception is told."""
    count = page.locator("lab-redraw").count()
    mine = [redrawn(page, number) for number in range(count)]
    assert count > 1 and all(said == "Drawn by your code of lab-04." for _, said in mine)
    assert mine == [(redrawn(page, number)[0], said) for number, (_, said) in enumerate(mine)]
    write(page, 1, right.replace("return ", "return 1.5 * "))
    wrong = redrawn(page, 0)
    assert wrong[1] == mine[0][1] and wrong[0] != mine[0][0] == redrawn(page, 0)[0]
    write(page, 1, right.replace("return ", "return 1 / 0 + "))
    figure, said = redrawn(page, 0)
    assert figure == mine[0][0]
    sentence = (
        r"bubble_fraction\(p=2, m=1\): starter.py line \d+: ZeroDivisionError: division by zero\. "
        r"Expected a Fraction \(Fraction\(1, 2\)\)\."
    )
    assert re.fullmatch(sentence, said), said
    write(page, 1, right)


@browser_test
def test_labs_from_their_stubs_to_100_points_in_a_folder(visit, built):
    page = visit((built / "lab-04-stretch.html").as_uri())
    texts = written("lab-04")
    for name in ("lab-04-stretch", "lab-04"):
        page.goto((built / f"{name}.html").as_uri())
        for task in texts:
            if box(page, task).count():
                write(page, task, texts[task])
    said, claims = run(page, 1)
    assert said == "task 1: 9 of 9 points." and len(claims) == 2
    said, claims = run(page)
    assert said == "lab-04: 100 of 100 points." and all("passed" in lines[0] for lines in claims)
    expect_figures_by_their_code(page, texts[1])
    for prefix in ("lab-02", "lab-03", "lab-06"):
        expect_all_points(page, prefix)
    page.reload()
    for task in texts:
        if box(page, task).count():
            at_rest(page, task)
    kept = [task for task in texts if box(page, task).count()]
    assert len(kept) > 5
    for task in kept:
        assert box(page, task).locator("textarea").input_value().strip() == texts[task].strip()
    box(page, 1).get_by_role("button", name="Reset").click()
    page.reload()
    at_rest(page, 1)
    assert box(page, 1).get_by_role("button", name="Write task 1 here").is_visible()
    assert page.said == []


def in_a_terminal(tmp_path, this, starter):
    """The lab's entry of --scores, of plain pytest in a copy of the course."""
    tmp_path.mkdir(parents=True)
    (copy,) = copy_course(tmp_path, this)
    copy.file("starter").write_text(starter, encoding="utf-8")
    scores = tmp_path / "scores.json"
    environment = dict(os.environ, LAB_IMPL="starter", LAB_TORCH="none", LAB_VLLM_PYTHON="none")
    command = [sys.executable, "-m", "pytest", this.prefix, f"--scores={scores}"]
    subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    return json.loads(scores.read_text(encoding="utf-8"))["labs"][0]


def mixed(tmp_path, this, count=4):
    """A starter with some mistakes, of different functions, among the solution's; one raises."""
    tmp_path.mkdir(parents=True)
    (copy,) = copy_course(tmp_path, this)
    chosen = {}
    for mistake in load_bank(copy).mistakes:
        chosen.setdefault(mistake.replaces, mistake)
    text = ""
    for mistake in list(chosen.values())[:: max(1, len(chosen) // count)][:count]:
        plant(copy, mistake.source)
        text = copy.file("starter").read_text("utf-8")
        copy.file("solution").write_text(text, encoding="utf-8")
    return text


@browser_test
def test_what_is_said_is_what_a_terminal_says_word_for_word(visit, address, tmp_path):
    page = visit(f"{address}/{PAGES['lab-06']}.html")
    for prefix in LABS:
        only(page, prefix)
        expect_a_terminals_words(page, lab(prefix), tmp_path / prefix)
    expect_all_points(page, "lab-03")


def expect_a_terminals_words(page, this, tmp_path):
    text = mixed(tmp_path / "mixed", this)
    expected = in_a_terminal(tmp_path / "terminal", this, text)
    file = {"name": "starter.py", "mimeType": "text/x-python", "buffer": text.encode()}
    with page.expect_file_chooser() as chooser:
        box(page).get_by_role("button", name="Open").click()
    chooser.value.set_files(file)
    box(page).get_by_text("starter.py is here").wait_for()
    _, claims = run(page)
    told = {" ".join(lines) for lines in claims}
    assert len(claims) == len(expected["claims"])
    sentences = [claim for claim in expected["claims"] if claim["outcome"] == "failed"]
    assert sentences and "--call" not in " ".join(told)
    for claim in sentences:
        said = " ".join(claim["message"].split()).partition(" (pytest --call")[0]
        assert any(said in one for one in told), claim["message"]
        assert any(claim["hint"] in one for one in told), claim["hint"]
    with page.expect_download() as download:
        box(page).get_by_role("button", name="Download").click()
    assert Path(download.value.path()).read_text("utf-8").split() == text.split()


@browser_test
def test_an_endless_loop_is_named_as_in_a_terminal_and_one_outside_of_it_is_ended(visit, address):
    page = visit(f"{address}/lab-04.html", "navy", 390)
    good = written("lab-04")[3]
    endless = "\n    while True:\n        pass"
    write(page, 3, re.sub(r"\n    require\(grid=grid\)", endless, good))
    said, claims = run(page, 3)
    assert said.startswith("task 3: 0 of") and len(claims) > 1
    stuck = r"grid_bubble\(grid=.*\) did not finish within 10 s \(an endless loop\?\)"
    assert any(re.search(stuck, " ".join(lines)) for lines in claims)
    page.evaluate("readerPython.LIMIT_S = 1")
    write(page, 3, re.sub(r"\n    require\(grid=grid\)", "\n    sum(iter(int, 1))", good))
    said, claims = run(page, 3)
    assert "did not finish within 1 s (an endless loop?). Python was ended." in said and not claims
    write(page, 3, good)
    page.evaluate("readerPython.LIMIT_S = 15")
    said, claims = run(page, 3)
    assert said.startswith("task 3: ") and claims
    expect_no_violation(page)
    expect_no_sideways_scroll(page)


@browser_test
def test_it_is_written_with_the_keyboard(visit, address):
    page = visit(f"{address}/lab-04.html")
    box(page, 1).get_by_role("button").focus()
    page.keyboard.press("Enter")
    area = box(page, 1).locator("textarea")
    area.wait_for()
    stub = area.input_value()
    page.keyboard.press("Control+End")
    page.keyboard.press("Enter")  # keeps the indentation
    page.keyboard.type("x")
    page.keyboard.press("Tab")
    indent = re.search(r"\n( *)\S[^\n]*$", stub)[1]
    assert area.input_value() == f"{stub}\n{indent}x    "
    for _ in range(3):
        page.keyboard.press("Control+z")
    assert area.input_value() == stub
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Run the checks of task 1"
    expect_no_violation(page)


@browser_test
def test_what_another_tab_wrote_counts_and_a_browser_that_keeps_nothing_is_told(visit, built):
    address = (built / "lab-04.html").as_uri()
    page = visit(address)
    write(page, 1, "# here")
    with page.context.new_page() as other:
        other.goto(address)
        write(other, 1, "# in the other tab")
    with page.expect_download() as download:
        box(page).get_by_role("button", name="Download").click()
    assert "# in the other tab" in Path(download.value.path()).read_text("utf-8")
    page.add_init_script("IDBFactory.prototype.open = () => { throw new Error('refused') }")
    page.reload()
    write(page, 1, "# not kept")
    assert "keeps nothing for this page" in box(page, 1).locator("small").inner_text()
    page.reload()
    at_rest(page, 1)
    assert box(page, 1).get_by_role("button", name="Write task 1 here").is_visible()


# --- the planner --------------------------------------------------------------------------------


def place(*options):
    """What place.py prints in a terminal."""
    folder = next(ROOT.glob("phase-*/labs/capstone"))
    done = subprocess.run(
        [sys.executable, "place.py", *options], cwd=folder, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def asked(page, **fields):
    """The options that were asked for, and what the page prints, without its first line."""
    for name, value in fields.items():
        control = page.locator(f"place-model label.{name} > *")
        if control.evaluate("e => e.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)
    page.locator("place-model").get_by_role("button", name="Run").click()
    page.locator("place-model:not([aria-busy])").wait_for(timeout=120_000)
    command, _, screen = page.locator("place-model pre").inner_text().partition("\n")
    return shlex.split(command)[3:], screen


def but_the_labs(screen):
    """Without `by the reference, ... of labs ...`: lab 05 needs numpy, and a page has none."""
    return screen.partition("\n")[2].strip()


@browser_test
def test_the_planner_in_the_page_prints_what_a_terminal_prints(visit, built):
    page = visit((built / "place.html").as_uri(), "navy", 390)
    page.get_by_role("button", name="Ask the planner").click()
    page.locator("place-model").get_by_role("button", name="Run").click()
    page.locator("place-model").get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled: Python was ended.").wait_for()
    page.locator("place-model [type=checkbox]").check()
    for fields in ({"network": "10 GbE"}, {"model": "deepseek-v3", "more": "--pools --all"}):
        options, screen = asked(page, **fields)
        assert but_the_labs(screen) == but_the_labs(place(*[o for o in options if "svg" not in o]))
        assert page.locator("place-model svg[aria-label]").count() == 1
        expect_figures_fit(page)
    options, screen = asked(page, gpu="l40s", more="--nodes none")
    assert screen.strip() == "place.py: argument --nodes: a whole number, 1 or more, not 'none'"
    config = next(ROOT.glob("phase-*/labs/capstone/models/llama-3.1-8b.json")).read_text("utf-8")
    page.locator("place-model summary").click()
    page.locator("place-model textarea").fill(config)
    page.locator("place-model [type=file]").set_input_files(
        {"name": "box.json", "mimeType": "application/json", "buffer": b'{"price_per_gpu_hour": 2}'}
    )
    page.get_by_text("Here: box.json").wait_for()
    options, screen = asked(page, more="--box box.json")
    assert "--config" in options and "8.0 B parameters" in screen and "cost/M" in screen
    assert page.said == []
    expect_no_violation(page)
    expect_no_sideways_scroll(page)
