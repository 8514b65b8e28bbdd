"""The built book in a real Chromium: clean pages, search, themes, keyboard, phone, WCAG.

The checks are in book_checks.py; test_book_controls.py shows each of them a planted fault.
"""

import book_checks as checks
import pytest

PAGES = sorted(path.stem + ".html" for path in (checks.BOOK / "src").glob("*.md"))
PAGES = [name for name in PAGES if name != "SUMMARY.html"]

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]  # the first one builds the book


# --- every page ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_page_by_day_on_a_desk_and_by_night_on_a_phone(open_page, address, name):
    """Clean, figures told in words, no violation of WCAG; on a phone nothing sticks out."""
    page = open_page(f"{address}/{name}")
    checks.expect_clean(page)
    checks.expect_text_alternatives(page)
    checks.expect_no_violation(page)
    page = open_page(f"{address}/{name}", "navy", width=360)
    assert "navy" in page.evaluate("document.documentElement.className").split()
    checks.expect_no_sideways_scroll(page)
    checks.expect_no_violation(page)
    page.set_viewport_size({"width": 390, "height": 900})
    checks.expect_figures_fit(page)


@pytest.mark.parametrize("theme", ["light", "navy"])
def test_the_page_that_is_not_there_has_no_wcag_violation(open_page, address, theme):
    checks.expect_no_violation(open_page(f"{address}/404.html", theme))


@pytest.mark.parametrize("theme", ["rust", "coal", "ayu"])
def test_the_other_themes_have_no_wcag_violation_either(open_page, address, theme):
    for name in ("lab-01.html", "deep-dive.html"):
        checks.expect_no_violation(open_page(f"{address}/{name}", theme))


def test_the_book_works_from_a_folder(open_page, built):
    page = open_page((built / "guide.html").as_uri())
    assert page.complaints == []
    checks.search_for(page, "microbatches")


def test_the_printed_page_is_clean(open_page, address):
    page = open_page(f"{address}/print.html")
    checks.expect_no_violation(
        page, without=["color-contrast"]
    )  # which each page's own test asks for
    assert (
        checks.expect_text_alternatives(page) >= 10
    )  # or the checks of figures would check nothing
    page.emulate_media(media="print")
    assert page.complaints == []
    assert page.locator("main h1").count() == len(PAGES)
    sliders = page.locator("main input[type=range]")
    assert sliders.count() > 0
    assert not any(slider.is_visible() for slider in sliders.all())


def test_nothing_is_cut_off_in_print(open_page, address):
    page = open_page(f"{address}/print.html", width=673)  # A4 without its margins
    page.emulate_media(media="print")
    page.evaluate("document.querySelectorAll('main details').forEach(d => d.open = true)")
    cut = page.evaluate(
        """[...document.querySelectorAll('main table, main pre, main svg')]
            .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.textContent.trim().slice(0, 60))"""
    )
    assert not cut


# --- search, themes, formulas ---------------------------------------------------------------------


def test_search_finds_and_opens_a_chapter(open_page, address):
    page = open_page(f"{address}/index.html")
    checks.search_for(page, "microbatches bubble").click()
    page.wait_for_url("**/*.html?highlight=*")
    assert "index.html" not in page.url
    assert page.complaints == []


@pytest.mark.parametrize("name", ["guide.html", "lab-01.html"])
def test_the_theme_menu_recolours_figures_without_a_reload(open_page, address, name):
    page = open_page(f"{address}/{name}")
    before = checks.figure_colours(page)
    page.locator("#mdbook-theme-toggle").click()
    page.locator("#mdbook-theme-navy").click()
    checks.expect_recolouring(before, checks.figure_colours(page))


def test_the_math_font_is_shipped_and_used(open_page, address):
    page = open_page(f"{address}/lab-03-bill.html")
    page.wait_for_load_state("networkidle")
    checks.expect_stretched_brackets(page)
