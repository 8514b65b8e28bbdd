"""The built book, a browser and a local server for the tests of this folder."""

import functools
import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("book_checks", "book_widget_checks")
from book_checks import build_book, find_browser, serve  # noqa: E402

NOT_HERE = "not run here: needs {}: make book-test"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split() + ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """The built book. Tests that ask for it run on one xdist worker, with one browser."""
    if not shutil.which("mdbook", path=str(Path(sys.executable).parent)):
        pytest.skip(NOT_HERE.format("mdBook"))
    target = tmp_path_factory.mktemp("book")
    done = build_book(target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason=NOT_HERE.format("Playwright"))
    executable = find_browser()
    if not executable:
        if os.environ.get("CI"):
            pytest.fail("CI must run the browser tests, and there is no Chromium")
        pytest.skip(NOT_HERE.format("Chromium (chromium or google-chrome on PATH)"))
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=executable, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def address(built):
    base, stop = serve(built)
    yield base
    stop()


@pytest.fixture(scope="session")
def tab(browser):
    """tab(theme, scripts): a page for all tests that want such a one; each new one costs 0.4 s.

    Its `.complaints` lists what goes wrong in it: every request outside its `.own` host is among
    them; names of other hosts lead nowhere (FLAGS). Those without scripts share a cache, and so do
    the others.
    """
    contexts = {some: browser.new_context(java_script_enabled=some) for some in (True, False)}

    @functools.cache
    def make(theme, scripts):
        page = contexts[scripts].new_page()
        page.complaints = complaints = []
        page.on("console", lambda m: m.type in ("error", "warning") and complaints.append(m.text))
        page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
        page.on("request", lambda r: _note_foreign(r.url, page.own, complaints))
        page.on("requestfailed", lambda r: _note_failure(r, complaints))
        page.on(
            "response",
            lambda r: r.status >= 400 and complaints.append(f"status {r.status}: {r.url}"),
        )
        if scripts:
            page.add_init_script(f"localStorage.setItem('mdbook-theme', '{theme}')")
        return page

    return make


@pytest.fixture
def open_page(tab):
    """open_page(url, theme, width): the page, loaded anew; two of one theme are the same tab."""
    used = []

    def opener(url: str, theme: str = "light", width: int = 1280, scripts: bool = True):
        page = tab(theme, scripts)
        used.append(page)
        page.bring_to_front()  # what lies behind others is drawn once a second
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(media="screen", reduced_motion="reduce")
        page.own = url.split("/", 3)[2]
        page.goto(url, wait_until="load")
        return page

    yield opener
    for page in used:
        page.goto("about:blank")  # what it said late is said of this test
        page.complaints.clear()


def _note_foreign(url, own, complaints):
    if not url.startswith(("about:", "data:", "blob:", "file:")) and url.split("/", 3)[2] != own:
        complaints.append(f"external request: {url}")


def _note_failure(request, complaints):
    if "ERR_ABORTED" not in (request.failure or ""):  # a prefetch cut short is no failure
        complaints.append(f"failed request: {request.url}")
