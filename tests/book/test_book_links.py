"""What the built book points at, and what it counts: links, anchors, names shown to learners."""

import hashlib
import json
import re
import subprocess
import sys

import pytest
from book_checks import BOOK, REPO, broken_links, find_browser, print_pdf

pytestmark = pytest.mark.timeout(300)  # the first one builds the book


def test_every_local_link_and_anchor_leads_somewhere(built):
    broken, followed = broken_links(built)
    assert not broken, "\n".join(broken)
    assert followed > 200


def test_no_page_asks_for_anything_from_elsewhere(built):
    for page in built.rglob("*.html"):
        loads = re.findall(
            r"<(?:script|img|link|iframe|source|video)[^>]+(?:src|href)=\"(https?:[^\"]+)",
            page.read_text(encoding="utf-8"),
        )
        assert not loads, f"{page.name} loads {loads}"


def test_no_page_is_heavier_than_350_kilobytes_without_search(built):
    for page in built.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        used = set(re.findall(r'(?:src|href)="([^":#]+\.(?:js|css|svg|png|woff2))"', text))
        used = {name for name in used if not re.search(r"search|elasticlunr|mark-", name)}
        used |= {"assets/lab-math.woff2"} if "<math" in text else set()
        size = len(text.encode()) + sum((built / name).stat().st_size for name in used)
        assert len(used) > 5 and (size < 350_000 or page.name == "print.html"), (page.name, size)


def test_the_book_is_printed_as_a_pdf(built, tmp_path):
    if not find_browser():
        pytest.skip("not run here: needs Chromium")
    printed = print_pdf(built, tmp_path / "out" / "book.pdf").read_bytes()
    assert printed.startswith(b"%PDF") and printed.count(b"/Type /Page\n") > 80


def test_without_chromium_the_pdf_says_what_to_install(tmp_path):
    command = [sys.executable, str(BOOK / "build.py"), "--pdf"]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "apt install chromium" in done.stderr


def test_every_chapter_is_in_the_table_of_contents(built):
    toc = (built / "toc.html").read_text(encoding="utf-8")
    for chapter in (BOOK / "src").glob("*.md"):
        if chapter.stem != "SUMMARY":
            assert f'href="{chapter.stem}.html"' in toc, chapter.name


def test_the_font_travels_with_its_licence(built):
    assert 20_000 < (built / "assets" / "lab-math.woff2").stat().st_size < 60_000
    assert "SIL OPEN FONT LICENSE" in (built / "assets" / "OFL.txt").read_text(encoding="utf-8")


@pytest.fixture
def quotations(monkeypatch):
    """What the book quotes of vLLM, and the module that collected it."""
    monkeypatch.syspath_prepend(str(BOOK / "quotes"))
    import collect

    return json.loads((BOOK / "quotes" / "vllm.json").read_text(encoding="utf-8")), collect


def test_quotations_are_short_and_as_they_were_collected(quotations):
    stored, _ = quotations
    assert stored["quotes"]
    for name, quote in stored["quotes"].items():
        first, last = quote["lines"]
        assert len(quote["text"].split("\n")) == last - first + 1 <= 12, "a quotation is short"
        assert hashlib.sha256(quote["text"].encode()).hexdigest() == quote["sha256"], (
            f"{name}: edited by hand; python book/quotes/collect.py writes the quotations"
        )


def test_quotations_are_those_of_the_named_release(quotations):
    stored, collect = quotations
    version = stored["version"]
    releases = [*REPO.glob(f".venv*/lib/python*/site-packages/vllm*-{version}*.dist-info")]
    if not releases:
        pytest.skip(f"not run here: needs vLLM {version}: make vllm")
    assert collect.collect(releases[0].parent / "vllm") == stored


def test_the_hashed_requirements_are_the_pins_of_the_book_group():
    text = (REPO / "pyproject.toml").read_text(encoding="utf-8")
    group = next(line for line in text.splitlines() if line.startswith("book = "))
    pins = set(re.findall(r'"([\w-]+==[\d.]+)"', group))
    hashed = (BOOK / "requirements.txt").read_text(encoding="utf-8")
    assert pins == set(re.findall(r"(?m)^([\w-]+==[\d.]+) ", hashed)) and len(pins) == 2
    assert hashed.count("--hash=sha256:") > 10


@pytest.mark.parametrize("name", ["index.md", "guide.md", "deep-dive.md"])
def test_chapters_are_written_in_short_sentences(name):
    """A median of at most 18 words, and no sentence above 60: what the book promises its reader."""
    text = (BOOK / "src" / name).read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^```.*?^```|^\|.*?$|\{\{.*?\}\}|<[^>]*>|^#.*?$", " ", text)
    lengths = sorted(len(s.split()) for s in re.split(r"(?<=[.?!:])\s+|\n\n", text) if s.split())
    assert lengths[len(lengths) // 2] <= 18 and lengths[-1] <= 60, lengths[-5:]
