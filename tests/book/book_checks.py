"""What is asked of a page of the built book. Each check fails on a fault of its kind."""

import functools
import http.server
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

REPO = Path(__file__).resolve().parents[2]
BOOK = REPO / "book"
sys.path.insert(0, str(BOOK))
from build import find_browser, print_pdf  # noqa: E402, F401

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def expect_clean(page):
    """No console message, no failed or foreign request, one heading, nothing left unexpanded."""
    page.wait_for_load_state("networkidle")
    assert page.complaints == []
    assert page.locator("main h1").count() == 1
    assert page.locator("merror").count() == 0
    assert "{{" not in page.locator("main").inner_text()


def expect_no_violation(page, without=()):
    """axe-core finds no violation of WCAG 2.2 A or AA, of any rule but those named in `without`."""
    found = axe_violations(page, without)
    assert not found, "\n".join(found)


def axe_violations(page, without=()):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.evaluate("document.querySelectorAll('main details').forEach(d => d.open = true)")
    # it need not describe every element that is as it should be: half of its time
    options = {"runOnly": WCAG, "resultTypes": ["violations"]}
    options["rules"] = {rule: {"enabled": False} for rule in without}
    results = axe.Axe().run(page, options=options).response
    return [
        f"{rule['id']} ({rule['impact']}): "
        + "; ".join(str(node["target"]) for node in rule["nodes"][:4])
        for rule in results["violations"]
    ]


def expect_no_sideways_scroll(page):
    """Nothing sticks out of the window, except inside a box that scrolls by itself."""
    page.wait_for_function("document.fonts.status === 'loaded'")
    found = page.evaluate(
        """[...document.querySelectorAll('main, main *')].filter(element => {
            if (element.getBoundingClientRect().right <= innerWidth + 1) return false;
            const scrolls = box => ['auto', 'scroll'].includes(getComputedStyle(box).overflowX);
            for (let box = element.parentElement; box.closest('main *'); box = box.parentElement)
                if (scrolls(box)) return false;
            return true;
        }).map(e => `${e.tagName.toLowerCase()} ${e.className} ${e.textContent.slice(0, 40)}`)"""
    )
    assert not found, f"wider than the window: {found[:5]}"
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1] + 1, f"the page is {widths[0]} px wide on {widths[1]} px"


def expect_figures_fit(page):
    """No drawing is wider than its frame, and its words lie in it, 11 pixels high or more."""
    found = page.evaluate(
        """[...document.querySelectorAll('main figure svg, main .lab-widget svg')].flatMap(svg => {
            const [box, frame] = [svg, svg.parentElement].map(e => e.getBoundingClientRect());
            const beyond = (one, other) => one.left < other.left - 1 || one.right > other.right + 1;
            const words = [...svg.querySelectorAll('text')].flatMap(text => {
                const at = text.getBoundingClientRect();
                if (!at.width) return []; // of another step
                const size = parseFloat(getComputedStyle(text).fontSize) * svg.getScreenCTM().a;
                const faults = [size < 11 && 'too small', beyond(at, box) && 'cut off'];
                return faults.filter(Boolean).map(fault => `${fault}: ${text.textContent}`);
            });
            return beyond(box, frame) ? ['wider than its frame', ...words] : words;
        })"""
    )
    assert not found, f"{len(found)} faults of figures: {found[:5]}"


def figure_colours(page):
    return page.evaluate(
        """[...document.querySelectorAll(
            '.lab-figure svg text, .lab-figure svg rect, .lab-figure svg polyline')]
            .map(e => getComputedStyle(e)).map(s => s.fill + s.stroke)"""
    )


def expect_recolouring(first, second):
    """Every colour of a figure differs between two themes."""
    assert first and len(first) == len(second)
    kept = [i for i, (one, other) in enumerate(zip(first, second, strict=True)) if one == other]
    assert not kept, f"{len(kept)} of {len(first)} shapes kept their colour"


def expect_stretched_brackets(page):
    """Tall brackets stretch only with an OpenType MATH font."""
    assert page.evaluate("document.fonts.check('16px \"Lab Math\"')")
    height = page.evaluate(
        """Math.max(...[...document.querySelectorAll('math mo')]
            .filter(o => '⌈⌊{(['.includes(o.textContent))
            .map(o => o.getBoundingClientRect().height))"""
    )
    assert height > 28, f"the tallest bracket is {height} px"


def expect_text_alternatives(page):
    """Every drawing says in words what it shows; returns how many there are."""
    labels = page.evaluate(
        "[...document.querySelectorAll('main figure svg, main .lab-widget svg')]"
        ".map(s => s.getAttribute('aria-label') || '')"
    )
    for label in labels:
        assert len(label) > 30, f"a figure says only {label!r}"
    return len(labels)


def search_for(page, words, limit_ms=5000):
    page.keyboard.press("s")
    page.locator("#mdbook-searchbar").wait_for(state="visible")
    page.keyboard.type(words, delay=5)
    hit = page.locator("#mdbook-searchresults a").first
    hit.wait_for(state="visible", timeout=limit_ms)
    return hit


# --- links: no browser needed -------------------------------------------------------------------


class Page(HTMLParser):
    """The ids and the links of one HTML file."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.append((value, self.getpos()[0]))


def broken_links(root: Path):
    """(what is broken, how many local links were followed) of a folder of HTML files."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in root.rglob("*.html")}
    broken, followed = [], 0
    for file, page in pages.items():
        for url, line in page.links:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or file.name == "404.html":
                continue
            followed += 1
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            where = f"{file.name}:{line}"
            if not target.exists():
                broken.append(f"{where}: no file {url}")
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].ids:
                    broken.append(f"{where}: no anchor {url}")
    return broken, followed


# --- commands -----------------------------------------------------------------------------------


def shown_commands(markdown: str):
    """The commands of bash and console fences, without prompts, comments and output."""
    found = []
    for language, body in re.findall(r"(?ms)^ *```(bash|console)\n(.*?)^ *```", markdown):
        for line in re.sub(r"\\\n\s*", "", body).splitlines():  # a folded command is one
            if language == "console" and not line.lstrip().startswith("$ "):
                continue
            command = re.sub(r"\s+#.*", "", line.strip().removeprefix("$ ")).strip()
            if command and not command.startswith("#"):
                found.append(command)
    return found


# --- building and serving ------------------------------------------------------------------------


def build_book(target: Path) -> subprocess.CompletedProcess[str]:
    """Build the book of this checkout into `target`."""
    command = [sys.executable, str(BOOK / "build.py"), "--out", str(target)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def serve(folder: Path):
    """A server of `folder` on a free port of this machine; (address, stop)."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()

    def stop():
        server.shutdown()
        server.server_close()

    return f"http://127.0.0.1:{server.server_port}", stop
