"""The interactive figures: the labs' arithmetic, the keyboard, and life without scripts."""

import re

import pytest
from book_checks import expect_no_violation
from book_widget_checks import EXPECT, PLACES, expect_keyboard

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.mark.parametrize("widget", PLACES)
def test_the_arithmetic_is_the_labs_and_every_key_is_answered(open_page, address, widget):
    page = open_page(f"{address}/{PLACES[widget]}")
    EXPECT[widget](page)
    status = page.locator(f"{widget} [role=status]").inner_text()
    assert re.fullmatch(r"[A-Z0-9].*\.", status) and len(status.split()) >= 5, "not announced"
    expect_keyboard(page, widget)
    assert page.complaints == []


@pytest.mark.parametrize("widget", PLACES)
def test_controls_are_large_enough_for_a_finger(open_page, address, widget):
    page = open_page(f"{address}/{PLACES[widget]}", width=360)
    for control in page.locator(f"{widget} select, {widget} input[type=range]").all():
        assert control.bounding_box()["height"] >= 24
        assert control.bounding_box()["width"] >= 100


@pytest.mark.parametrize("widget", PLACES)
def test_without_javascript_there_is_something_to_read(open_page, address, widget):
    page = open_page(f"{address}/{PLACES[widget]}", scripts=False)
    rows = page.locator(f"{widget} table tr")
    assert rows.count() >= 4
    assert rows.first.is_visible()


def test_a_refused_size_says_why(open_page, address):
    page = open_page(f"{address}/lab-01.html")
    page.locator("sharding-explorer [name=tp]").focus()
    page.keyboard.press("ArrowRight")  # TP=3
    status = page.locator("sharding-explorer [role=status]").inner_text()
    assert "TP=3 is not possible: 32 query heads do not divide by 3" in status


# --- drawings that come step by step --------------------------------------------------------------


def moving(page):
    page.emulate_media(reduced_motion="no-preference")
    return page.locator("lab-steps").first


def visible(page, what):
    return sum(part.is_visible() for part in page.locator(f"lab-steps >> nth=0 >> {what}").all())


def test_a_ring_is_walked_step_by_step_with_buttons_and_arrows(open_page, address):
    page = open_page(f"{address}/lab-03.html")
    frames = page.locator("lab-steps svg").count()
    steps = moving(page)
    status, url = steps.locator("[role=status]"), page.url
    assert frames == 7 and visible(page, "svg") == 1 and status.inner_text().startswith("Start")
    steps.get_by_role("button", name="Next").click()
    assert "1 of 6: reduce-scatter" in status.inner_text() and visible(page, "svg") == 1
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert "4 finished chunks of 4" in status.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert "Step 6" in status.inner_text(), "the steps go round"
    assert page.url == url and page.complaints == []


@pytest.mark.parametrize("theme", ["light", "navy", "rust", "coal", "ayu"])
def test_moving_drawings_have_no_wcag_violation(open_page, address, theme):
    page = open_page(f"{address}/lab-02-overlap.html", theme)
    assert moving(page).get_by_role("button", name="Next").is_visible()
    expect_no_violation(page)


def test_parts_of_a_drawing_come_and_go_with_the_steps(open_page, address):
    page = open_page(f"{address}/lab-04.html")
    grid = page.locator("lab-steps").first.locator("svg").first.locator("g[data-from]")
    steps = moving(page)
    assert [part.is_visible() for part in grid.all()] == [True] * 5 + [False] * 5  # opens full
    for _ in range(5):
        steps.get_by_role("button", name="Back").click()
    assert all(part.is_visible() for part in grid.all())
    assert visible(page, "g[data-step]") == 3  # one place in each of the three loops


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("name", ["lab-01", "lab-04", "lab-02-overlap"])
def test_what_moves_stands_still_for_whom_it_should(open_page, address, scripts, name):
    page = open_page(f"{address}/{name}.html", scripts=scripts)  # who wants no motion
    parts = page.locator("lab-steps >> nth=0 >> g[data-from]").count()
    for how in ("on paper", "without motion") if scripts else ("without scripts",):
        page.emulate_media(
            media="print" if how == "on paper" else "screen",
            reduced_motion="reduce" if how == "without motion" else "no-preference",
        )
        assert visible(page, "button") == visible(page, "g[data-step]") == 0, how
        assert visible(page, "svg") == page.locator("lab-steps >> nth=0 >> svg").count(), how
        assert visible(page, "g[data-from]") == parts, how
