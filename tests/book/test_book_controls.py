"""Negative controls: every check of the book is shown a fault that it must find."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import book_checks as checks
import pytest
from book_widget_checks import EXPECT, PLACES, expect_keyboard

pytestmark = pytest.mark.timeout(300)  # the first one builds the book


@pytest.fixture
def planted(built, tmp_path):
    """planted(file, old, new): the address of a copy of the book with that text replaced."""
    stops = []

    def plant(name, old, new, every=False):
        copy = tmp_path / "copy"
        if not copy.exists():
            shutil.copytree(built, copy)
        files = sorted(copy.glob(name))
        assert files, name
        for file in files:
            text = file.read_text(encoding="utf-8")
            assert old in text, f"{file.name} has no {old!r} to replace"
            file.write_text(text.replace(old, new, -1 if every else 1), encoding="utf-8")
        address, stop = checks.serve(copy)
        stops.append(stop)
        return address

    yield plant
    for stop in stops:
        stop()


@pytest.mark.browser
@pytest.mark.parametrize(
    "fault",
    [
        '<script>console.error("boom")</script>',
        "<script>throw new Error('boom')</script>",
        '<img alt="" src="missing.png">',
        '<img alt="" src="https://example.com/x.png">',
        '<link rel="stylesheet" href="https://example.com/x.css">',
        "<h1>another</h1>",
        "<p>{{py: 1 + 1}}</p>",
        "<math><merror><mtext>x</mtext></merror></math>",
    ],
)
def test_an_unclean_page_is_found(open_page, planted, fault):
    page = open_page(planted("guide.html", "</main>", fault + "</main>") + "/guide.html")
    with pytest.raises(AssertionError):
        checks.expect_clean(page)


@pytest.mark.browser
def test_a_page_too_wide_for_a_phone_is_found(open_page, planted):
    wide = '<div style="width:700px">wide</div></main>'
    page = open_page(planted("guide.html", "</main>", wide) + "/guide.html", width=360)
    with pytest.raises(AssertionError, match="wider than the window"):
        checks.expect_no_sideways_scroll(page)


@pytest.mark.browser
@pytest.mark.parametrize(
    "says, size, words",
    [
        ("wider than its frame", 'viewBox="0 0 680 9" style="min-width:680px"', ""),
        ("too small: b", 'viewBox="0 0 680 40"', '<text y="30" font-size="13">b</text>'),
        ("cut off: b", 'viewBox="0 0 400 40"', '<text x="399" y="30" font-size="13">b</text>'),
    ],
)
def test_a_figure_too_wide_for_a_phone_is_found(open_page, planted, says, size, words):
    wide = f'<figure class="lab-figure"><svg width="680" {size}>{words}</svg></figure></main>'
    page = open_page(planted("guide.html", "</main>", wide) + "/guide.html", width=390)
    with pytest.raises(AssertionError, match=f"1 faults of figures: ..{says}"):
        checks.expect_figures_fit(page)


VIOLATIONS = {  # of a rule
    "color-contrast": '<p style="color:#aaa;background:#fff">faint words</p>',
    "image-alt": '<img src="favicon.png">',
    "label": "<input type=range>",
    "aria-": '<div role="button" aria-checked="true">x</div>',
}


@pytest.mark.browser
def test_a_wcag_violation_is_found(open_page, planted):
    faults = "".join(VIOLATIONS.values())
    page = open_page(planted("guide.html", "</main>", faults + "</main>") + "/guide.html")
    with pytest.raises(AssertionError) as complaint:
        checks.expect_no_violation(page)
    found = str(complaint.value).splitlines()
    for rule in VIOLATIONS:
        assert any(line.strip().startswith(rule) for line in found), rule
    without = checks.axe_violations(page, ["color-contrast"])
    assert without and not any(line.startswith("color-contrast") for line in without)


@pytest.mark.browser
def test_without_the_accessibility_script_axe_complains(open_page, planted):
    """The mends of a11y.js are needed: stock mdBook 0.5 pages have violations."""
    address = planted("theme/a11y-*.js", "(() => {", "(() => { return;")
    assert checks.axe_violations(open_page(f"{address}/guide.html"))


@pytest.mark.browser
def test_a_figure_with_colours_of_its_own_is_found(open_page, planted):
    address = planted("guide.html", 'class="c0 edge"', 'style="fill:#00f;stroke:#00f"')
    colours = [
        checks.figure_colours(open_page(f"{address}/guide.html", t)) for t in ("light", "navy")
    ]
    with pytest.raises(AssertionError, match="kept their colour"):
        checks.expect_recolouring(*colours)


@pytest.mark.browser
def test_a_drawing_without_words_is_found(open_page, planted):
    page = open_page(planted("guide.html", 'role="img" aria-label="', 'data-x="') + "/guide.html")
    with pytest.raises(AssertionError, match="a figure says only"):
        checks.expect_text_alternatives(page)


@pytest.mark.browser
def test_a_missing_math_font_is_found(open_page, planted, tmp_path):
    address = planted("guide.html", "</main>", "</main>")
    (tmp_path / "copy" / "assets" / "lab-math.woff2").unlink()
    page = open_page(f"{address}/lab-03-bill.html")
    page.wait_for_load_state("networkidle")
    with pytest.raises(AssertionError):
        checks.expect_stretched_brackets(page)
    assert any("lab-math" in complaint for complaint in page.complaints)


@pytest.mark.browser
def test_a_search_that_finds_nothing_is_found(open_page, planted):
    from playwright.sync_api import TimeoutError as NothingFound

    address = planted("searchindex-*.js", "window.search", "window.nothing", every=True)
    with pytest.raises(NothingFound):
        checks.search_for(open_page(f"{address}/index.html"), "microbatches", limit_ms=2000)


WRONG = {
    "pipeline-bubble": ("Math.min(p - 1 - rank, m)", "Math.min(p - rank, m)"),
    "communication-bill": ("const hops = 2 * (p - 1);", "const hops = 2 * p;"),
    "sharding-explorer": ("Math.max(1, num_kv_heads / n)", "num_kv_heads / n"),
}


@pytest.mark.browser
@pytest.mark.parametrize("widget", WRONG)
def test_wrong_arithmetic_in_a_widget_is_found(open_page, planted, widget):
    address = planted(f"widgets/{widget}.js", *WRONG[widget])
    with pytest.raises(AssertionError):
        EXPECT[widget](open_page(f"{address}/{PLACES[widget]}"))


@pytest.mark.browser
@pytest.mark.parametrize("widget", WRONG)
def test_a_control_out_of_the_keyboards_reach_is_found(open_page, planted, widget):
    address = planted(f"widgets/{widget}.js", 'type="range"', 'type="range" tabindex="-1"')
    with pytest.raises(AssertionError, match="Tab does not reach"):
        expect_keyboard(open_page(f"{address}/{PLACES[widget]}"), widget)


@pytest.mark.parametrize("link", ["nowhere.html", "guide.html#nowhere", "../outside.html"])
def test_a_broken_link_is_found(built, tmp_path, link):
    shutil.copytree(built, tmp_path / "copy")
    page = tmp_path / "copy" / "guide.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</main>", f'<a href="{link}">x</a></main>'), encoding="utf-8")
    broken, _ = checks.broken_links(tmp_path / "copy")
    assert [item for item in broken if link in item]


def test_commands_are_read_from_fences_only():
    text = "```console\n$ make x # why\noutput\n```\n`no`\n```bash\n# no\npytest lab-01  # y\n```\n"
    assert checks.shown_commands(text) == ["make x", "pytest lab-01"]


# --- the build ------------------------------------------------------------------------------------


@pytest.fixture
def draft(tmp_path):
    """A copy of the book's source that still finds the labs; build() builds it."""
    skipped = shutil.ignore_patterns("build", ".cache", "__pycache__")
    copy = tmp_path / "draft"
    shutil.copytree(checks.BOOK, copy, ignore=skipped)
    if (checks.BOOK / ".cache").exists():
        shutil.copytree(checks.BOOK / ".cache", copy / ".cache")
    settings = (copy / "book.toml").read_text(encoding="utf-8")
    settings = settings.replace('repo = ".."', f'repo = "{checks.REPO.as_posix()}"')
    settings = re.sub(r'"\.\./[\w-]+",? ?', "", settings)  # watched folders, for `serve` only
    (copy / "book.toml").write_text(settings, encoding="utf-8")

    def build():
        command = [sys.executable, "build.py", "--out", str(tmp_path / "out")]
        return subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)

    build.source = copy / "src"
    return build


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("W8 < 0.25 * H100", "W8 < 0.05 * H100", "no longer true"),
        ("{{figure: five_ways}}", "{{figure: six_ways}}", "no figure 'six_ways'"),
        ("| b200}}", "| nobody}}", "no source 'nobody'"),
    ],
)
def test_a_false_chapter_stops_the_build_with_its_line(draft, old, new, says):
    page = draft.source / "guide.md"
    contents = "# Summary\n\n- [Five ways](guide.md)\n"  # one chapter is enough, and quick
    (draft.source / "SUMMARY.md").write_text(contents, encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new), encoding="utf-8")
    done = draft()
    assert done.returncode != 0
    said = re.search(r"guide\.md:(\d+): (.*)", done.stderr + done.stdout)
    assert said and says in said[2], done.stderr
    line = page.read_text(encoding="utf-8").splitlines()[int(said[1]) - 1]
    assert any(part and part in line for part in new.split("\n")[-3:]), (said[0], line)


def test_two_builds_are_equal(draft, built, tmp_path):
    """A copy of the book in another folder gives the same pages, byte for byte."""
    done = draft()
    assert done.returncode == 0, done.stderr
    for page in sorted(Path(built).glob("*.html")):
        assert (tmp_path / "out" / page.name).read_bytes() == page.read_bytes(), page.name
