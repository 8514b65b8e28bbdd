"""Fields that ask before the page tells: what they refuse, say, keep and count."""

import csv
import io

import pytest
from labbook.guesses import choose, guess

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]
PAGE = "pools.html"


def say(page, number, text):
    form = page.locator("lab-guess form").nth(number)
    field = form.locator("[name=said]")
    if field.evaluate("field => field.tagName") == "SELECT":
        field.select_option(text)
    else:
        field.fill(text)
    field.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the button, by keyboard alone
    return form.locator("output").inner_text()


def test_a_guess_is_judged_kept_and_counted(open_page, address):
    page = open_page(f"{address}/{PAGE}")
    truth = float(page.locator("lab-guess").first.get_attribute("truth"))
    assert "A number above 0, please" in say(page, 0, "many")
    told = say(page, 0, f"{truth / 4:.6f}")
    assert "4.0 times too low" in told
    page.reload()
    assert page.locator("lab-guess output").first.inner_text() == told
    assert "guessed 1 of" in page.locator("lab-record [role=status]").inner_text()
    with page.expect_download() as download:
        page.locator("lab-record [name=csv]").click()
    rows = list(csv.reader(io.StringIO(open(download.value.path()).read())))
    assert rows[0] == ["page", "question", "said", "truth", "near enough"]
    assert rows[1][:2] == ["pools", "1"] and rows[1][4] == "no"
    page.locator("lab-record [name=again]").click()
    assert "counted here" in page.locator("lab-record [role=status]").inner_text()
    assert "5% too high" in say(page, 0, f"{truth * 1.05:.6f}")


def test_answers_wait_for_the_guesses_and_can_be_opened_anyway(open_page, address):
    page = open_page(f"{address}/hangs.html")
    fold = page.locator(".predict details").first
    fold.locator("summary").click()
    assert fold.get_attribute("open") is None
    assert "not guessed yet" in page.locator(".predict [role=status]").first.inner_text()
    fold.locator("summary").click()
    assert fold.get_attribute("open") is not None
    page.locator("lab-record [name=off]").click()
    assert not page.locator("lab-guess").first.is_visible()
    page.locator("lab-record [name=off]").click()
    assert page.locator("lab-guess").first.is_visible()


def test_without_scripts_and_in_print_there_are_no_fields(open_page, address):
    page = open_page(f"{address}/{PAGE}", scripts=False)
    assert page.locator("lab-guess input").count() == 0
    page = open_page(f"{address}/{PAGE}")
    page.emulate_media(media="print")
    assert not page.locator("lab-guess").first.is_visible()
    page.emulate_media(media="screen")


@pytest.mark.parametrize("wrong", [lambda: guess(0), lambda: guess(-3), lambda: guess(2, within=1)])
def test_a_truth_that_no_factor_reaches_is_refused(wrong):
    with pytest.raises(ValueError, match="guess: truth"):
        wrong()


def test_a_choice_needs_its_right_answer():
    for options, right in (("one", 1), ("one; two", 0), ("one; two", 3)):
        with pytest.raises(ValueError, match="choose: there are"):
            choose(options, right)
    assert 'options="a;b"' in choose("a; b", 2)
