"""The preprocessor: what each directive yields, and that every broken promise stops the build."""

import json
import subprocess
import sys

import pytest
from book_checks import BOOK

math_core = pytest.importorskip("math_core", reason="needs the book's packages: make book")

from labbook import labs  # noqa: E402
from labbook.__main__ import glossary, scripts, tooltips  # noqa: E402
from labbook.cache import Cache, fingerprint  # noqa: E402
from labbook.chapter import Build, render  # noqa: E402
from labbook.markdown import BookError, Fence, Prose, segments  # noqa: E402
from labbook.names import Names  # noqa: E402

from labkit.loading import LoadError  # noqa: E402
from labkit.svg import Drawing, Plot  # noqa: E402


@pytest.fixture
def build(tmp_path):
    """A namespace without the real labs."""
    calls = []

    def namespace():
        calls.append("once more")
        return {"figure": eval, "drawing": labs.drawing, "half": lambda x: x / 2}

    built = Build(Cache(tmp_path / "cache", "salt"), namespace, {"kubis"})
    built.calls = calls
    return built


def page(build, text):
    return render(text, "chapter.md", build)


BLOCK, SUM = "```python,eval\nprint(7)\n```\n", "A {{py: 40 + 2}}.\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{BLOCK}\n{SUM}", f"{SUM}\n{BLOCK}"),
        ("`{{py: 1 + 1}}` and {{py: 2 + 2}}", "{{py: 1 + 1}} and `{{py: 2 + 2}}`"),
        ("`{{py: 1 + 1}}`", "{{py: 1 + 1}}"),
    ],
)
def test_a_kept_result_never_comes_in_the_place_of_another(build, before, after, tmp_path):
    page(build, before)
    afresh = Build(Cache(tmp_path / "other", "salt"), build.namespace, build.sources)
    assert page(build, after) == page(afresh, after)


def failure(build, text):
    with pytest.raises(BookError) as caught:
        page(build, text)
    return str(caught.value)


def test_a_value_is_computed_and_formatted(build):
    assert page(build, "It is {{py: half(5) | .2f}}.") == "It is 2.50."
    assert page(build, "{{py: 'a|b'}}") == "a|b"


def test_a_lab_that_does_not_load_is_an_error_of_the_line_that_names_it(build, monkeypatch):
    def broken(path):
        raise LoadError("solution.py line 3: invalid syntax")

    monkeypatch.setattr("labbook.labs.load_module", broken)
    monkeypatch.setattr("labbook.labs.solution", labs.solution.__wrapped__)  # it keeps none
    build.namespace = Names
    said = failure(build, "{{py: 1}}\n\n{{py: lab01.x}}\n")
    assert said == "chapter.md:3: solution.py line 3: invalid syntax"


def test_a_fraction_can_be_formatted_on_every_python(build):
    text = "```python,eval,hide\nfrom fractions import Fraction\n```\n{{py: Fraction(7, 70) | .1%}}"
    assert "10.0%" in page(build, text)


def test_values_work_in_tables_and_formulas_but_not_in_code_spans(build):
    done = page(build, "| a | {{py: 1+1}} |\n\n$x = {{py: 40+2}}$ and `{{py: 1/0}}`\n")
    assert "| a | 2 |" in done and "<mn>42</mn>" in done and "`{{py: 1/0}}`" in done


def test_a_true_check_leaves_no_trace_and_a_false_one_stops_the_build(build):
    assert page(build, "Small.{{check: half(5) < 3}}") == "Small."
    message = failure(build, "one\ntwo\nSmall.{{check: half(5) < 2}}")
    assert message.startswith("chapter.md:3: ") and "half(5) = 2.5" in message


def test_an_exception_names_chapter_and_line(build):
    assert failure(build, "a\n\n{{py: half('x')}}").startswith("chapter.md:3: TypeError")
    text = "a\n\n```python,eval\nx = 1\ny = x / 0\n```\n"
    assert failure(build, text).startswith("chapter.md:5: ZeroDivisionError")


def test_an_eval_block_shows_what_it_printed_and_hide_hides_its_source(build):
    shown = page(build, "```python,eval\nprint(half(8))\n```\n")
    assert "print(half(8))" in shown and "```text\n4.0\n```" in shown
    assert "print" not in page(build, "```python,eval,hide\nprint(1)\n```\n")


def test_names_made_in_a_block_are_known_below_it(build):
    assert page(build, "```python,eval,hide\nq = 7\n```\n{{py: q}}").strip().endswith("7")


def test_fences_keep_their_list_indentation(build):
    shown = page(build, "- item\n\n  ```python,eval\n  print(3)\n  ```\n")
    assert "\n  ```text\n  3\n  ```" in shown


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("```\nx\n```", "names no language"),
        ("```text\n\n```", "empty"),
        ("```python\nx\n", "never closed"),
        ("```python\ndef (\n```", "python:"),
        ("{{drawing: lab-07/none.svg | a line}}", "no single file"),
        ("$$\\frac{1}$$", "formula"),
        ("$\\nosuch$", "formula"),
        ("{{nothing: x}}", "unknown directive"),
        ("{{#include x.py}}", "cannot read"),
        ("{{fact: 57 % | nobody}}", "no source 'nobody'"),
        ("It loses 57 % of it.", "typed by hand"),
        ("It takes 8 KiB.", "typed by hand"),
        ("{{figure: f(}}", "SyntaxError"),
    ],
)
def test_what_cannot_be_done_stops_the_build_with_its_line(build, text, says):
    message = failure(build, "first\n\n" + text + "\n")
    assert message.startswith("chapter.md:") and says in message, message
    line = int(message.split(":")[1])
    assert line in (3, 4), message


def test_a_link_to_the_glossary_carries_the_definition(tmp_path):
    (tmp_path / "g.md").write_text(
        "# G\n\nBus bandwidth (busbw)\n: Bytes per *second*, as {{fact: n | n}}\ndoes. More.\n"
    )
    terms = glossary(tmp_path / "g.md")
    assert terms == {"bus-bandwidth-busbw": "Bytes per second, as n does."}
    linked = tooltips("[x](glossary.md#bus-bandwidth-busbw) [y](glossary.md#z)", terms)
    assert linked == (
        '[x](glossary.md#bus-bandwidth-busbw "Bytes per second, as n does.") [y](glossary.md#z)'
    )


def test_a_page_loads_the_widgets_that_it_uses(tmp_path):
    (tmp_path / "a-b.js").write_text("")
    assert 'src="widgets/a-b.js"' in scripts("<a-b></a-b>", tmp_path)
    (tmp_path / "lab-python.js").write_text("")
    used = scripts("<place-model>", tmp_path)
    assert used.index("reader-storage.js") < used.index("lab-python.js")
    assert scripts("no widget", tmp_path) == scripts("<lab-task>", tmp_path, runs=False) == ""


def test_a_drawing_leaves_its_style_behind(build, tmp_path, monkeypatch):
    monkeypatch.setattr(labs, "ROOT", tmp_path)
    drawing = Drawing(10, 10).standalone("one")
    folder = tmp_path / "phase-1" / "labs" / "lab-07-things"
    folder.mkdir(parents=True)
    (folder / "a.svg").write_text(drawing)
    shown = page(build, "{{drawing: lab-07/a.svg | two}}")
    assert "<style>" in drawing and "<style>" not in shown and 'aria-label="two"' in shown


def test_markdown_cannot_eat_a_formula(build):
    mathml = page(build, "$a_1 * b_2 | c'$")
    between_tags = "".join(part.partition(">")[2] for part in mathml.split("<"))
    assert not set("_*|'") & set(between_tags)


def test_money_and_shell_variables_are_not_formulas(build):
    text = "US$5 and $6, \\$7, `$HOME` stay"
    assert page(build, text) == text


def test_display_math_alone_on_its_line_is_a_block(build):
    assert '<div class="math-block">' in page(build, "$$a = b$$\n")
    assert '<div class="math-block">' not in page(build, "so $$a = b$$ holds\n")


def test_results_are_kept_until_what_they_depend_on_changes(build, tmp_path):
    text = "prose {{py: half(4)}}"
    assert page(build, text) == page(build, text)
    page(build, "other prose {{py: half(4)}}")
    assert len(build.calls) == 1, "a prose edit must not run the code again"
    page(build, "prose {{py: half(6)}}")
    assert len(build.calls) == 2
    build.cache.salt = "the labs changed"
    page(build, text)
    assert len(build.calls) == 3


def test_the_fingerprint_sees_an_edit_of_a_lab(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    before = fingerprint([tmp_path])
    assert fingerprint([tmp_path]) == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert fingerprint([tmp_path]) != before


def test_a_damaged_cache_entry_is_computed_again(tmp_path):
    cache = Cache(tmp_path, "s")
    assert cache.get("k", lambda: 1) == 1
    for file in tmp_path.glob("*.json"):
        file.write_text("{")
    assert cache.get("k", lambda: 2) == 2


def test_segments_give_back_the_text_and_its_lines():
    found = list(segments("a\n```text\nb\n```\nc\n", "f.md"))
    assert [type(p) for p in found] == [Prose, Fence, Prose]
    assert [p.line for p in found] == [1, 2, 5]


def test_a_figure_needs_a_text_alternative():
    with pytest.raises(ValueError, match="text alternative"):
        Drawing(10, 10).figure(alt=" ")
    shown = Drawing(10, 10).figure(alt='a "quoted" <b>')
    assert 'aria-label="a &quot;quoted&quot; &lt;b&gt;"' in shown and "\n" not in shown


def test_a_plot_puts_values_where_its_axes_say():
    plot = Plot((1, 100), (0, 10), "x", "y", [], [], log_x=True)
    assert plot.x(10) == pytest.approx((plot.left + plot.right) / 2)
    assert plot.y(10) == plot.top and plot.y(0) == plot.bottom


def run_protocol(arguments, stdin=""):
    return subprocess.run(
        [sys.executable, "-m", "labbook", *arguments],
        cwd=BOOK,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_mdbook_is_told_which_renderers_are_served():
    assert run_protocol(["supports", "html"]).returncode == 0
    assert run_protocol(["supports", "epub"]).returncode == 1


def test_all_errors_of_a_book_are_reported_at_once(tmp_path):
    def chapter(name, content):
        return {"Chapter": {"name": name, "content": content, "source_path": name, "sub_items": []}}

    context = {"root": str(tmp_path), "config": {"preprocessor": {"labbook": {}}}}
    book = {"items": [chapter("one.md", "```\nx\n```"), chapter("two.md", "{{nothing: 1}}")]}
    done = run_protocol([], json.dumps([context, book]))
    assert done.returncode == 1 and done.stdout == ""
    assert "one.md:1:" in done.stderr and "two.md:1:" in done.stderr
