"""Terms of the glossary: linked once a page, in prose only."""

from __future__ import annotations

import re
import sys

import pytest
from book_checks import BOOK

sys.path.insert(0, str(BOOK))

from labbook.glossary import link, terms  # noqa: E402

SOURCE = BOOK / "src" / "glossary.md"
KNOWN = {"TP": ("tp", 'Cuts "layers"'), "rank": ("rank", "A process"), "ring": ("ring", "An order")}


def test_the_first_use_is_a_link_with_a_tooltip_and_later_ones_are_text():
    seen = set()
    shown = link("A rank at TP=2. Another rank.", KNOWN, seen)
    assert shown == (
        'A <a class="term" href="glossary.html#rank" title="A process">rank</a> at '
        '<a class="term" href="glossary.html#tp" title="Cuts &quot;layers&quot;">TP</a>=2. '
        "Another rank."
    )
    assert link("On the next part of the page, a rank.", KNOWN, seen).count("<a") == 0


@pytest.mark.parametrize(
    "text",
    [
        "`rank` and ``TP``",
        "[the rank](x.md)",
        "## A rank",
        "| rank | TP |",
        '<p title="rank">',
        "<math>TP</math>",
        "<summary>A rank</summary>",
        "**rank**",
        "during a string of tps",
    ],
)
def test_code_links_headings_tables_and_other_words_stay_as_they_are(text):
    assert link(text, KNOWN, set()) == text


def test_the_glossary_has_the_terms_of_the_trade_and_no_entry_explains_itself_by_its_name():
    known = terms(SOURCE)
    assert {"TTFT", "TPOT", "MLA", "TP", "PP", "EP", "disaggregation", "roofline"} <= known.keys()
    assert "CUDA graph".lower() in known or "CUDA graph" in known
    for name, (_, definition) in known.items():
        assert definition and not re.match(rf"(?i)an? {re.escape(name)}\b", definition), name
