"""The three interactive figures: the labs' arithmetic, the keyboard, and life without scripts."""

from __future__ import annotations

import re

import pytest
from book_widget_checks import EXPECT, PLACES, expect_keyboard

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.mark.parametrize("widget", PLACES)
def test_the_arithmetic_is_the_labs(open_page, address, widget):
    EXPECT[widget](open_page(f"{address}/{PLACES[widget]}"))


# --- keyboard, touch, status ----------------------------------------------------------------------


@pytest.mark.parametrize("widget", PLACES)
def test_widgets_answer_to_the_keyboard(open_page, address, widget):
    page = open_page(f"{address}/{PLACES[widget]}")
    expect_keyboard(page, widget)
    assert page.complaints == []


@pytest.mark.parametrize("widget", PLACES)
def test_the_status_is_a_sentence_that_is_announced(open_page, address, widget):
    page = open_page(f"{address}/{PLACES[widget]}")
    status = page.locator(f"{widget} [role=status]").inner_text()
    assert re.fullmatch(r"[A-Z0-9].*\.", status) and len(status.split()) >= 5


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
