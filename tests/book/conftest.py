"""The built book, a browser and a local server for the tests of this folder."""

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
    beside = shutil.which("mdbook", path=str(Path(sys.executable).parent)) or shutil.which("mdbook")
    if not beside:
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
def contexts(browser):
    """A context with scripts and one without: pages share their cache."""
    return {
        scripts: browser.new_context(reduced_motion="reduce", java_script_enabled=scripts)
        for scripts in (True, False)
    }


@pytest.fixture
def open_page(contexts):
    """open_page(url, theme, width): a page whose `.complaints` lists what went wrong in it.

    Every request outside the url's own host is listed; names of other hosts lead nowhere (FLAGS).
    """
    pages = []

    def opener(url: str, theme: str = "light", width: int = 1280, scripts: bool = True):
        page = contexts[scripts].new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.complaints = complaints = []
        own = url.split("/", 3)[2]
        page.on("console", lambda m: m.type in ("error", "warning") and complaints.append(m.text))
        page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
        page.on("request", lambda r: _note_foreign(r.url, own, complaints))
        page.on("requestfailed", lambda r: _note_failure(r, complaints))
        page.on(
            "response",
            lambda r: r.status >= 400 and complaints.append(f"status {r.status}: {r.url}"),
        )
        if scripts:
            page.add_init_script(f"localStorage.setItem('mdbook-theme', '{theme}')")
        page.goto(url, wait_until="load")
        return page

    yield opener
    for page in pages:
        page.close()


def _note_foreign(url, own, complaints):
    if not url.startswith(("data:", "blob:", "file:")) and url.split("/", 3)[2] != own:
        complaints.append(f"external request: {url}")


def _note_failure(request, complaints):
    if "ERR_ABORTED" not in (request.failure or ""):  # a prefetch cut short is no failure
        complaints.append(f"failed request: {request.url}")
