"""What the chapters take from the labs: claims, gaps, mistakes, screens; and what is refused."""

import pytest
from labbook import labs, screens
from labbook.amounts import human_bytes, microseconds
from labbook.cache import Cache
from labbook.markdown import BookError, table

pytestmark = pytest.mark.timeout(120)
LABS = ("lab-01", "lab-02", "lab-03", "lab-04", "lab-05")


@pytest.mark.parametrize("prefix", LABS)
def test_the_claims_of_a_lab_are_read_whole(prefix):
    found = labs.claims(prefix)
    assert sum(claim.points for claim in found) == 100


@pytest.mark.parametrize("prefix", LABS)
def test_every_gap_has_a_task_a_size_and_a_stub(prefix):
    found = labs.gaps(prefix)
    assert found
    for gap in found:
        assert gap.lines >= 1 and gap.number >= 1
        assert labs.does(prefix, gap.function).endswith(".")
        assert "NotImplementedError" in labs.stub(f"{prefix}:{gap.function}")


@pytest.mark.parametrize("prefix", LABS)
def test_every_function_has_hints_in_three_folds_one_inside_the_other(prefix):
    for gap in labs.gaps(prefix):
        shown = labs.hints(f"{prefix}:{gap.function}")
        idea, sketch, formula = (shown.index(word) for word in ("idea<", "sketch<", "code<"))
        assert idea < sketch < formula < shown.index("</details>")
        assert shown.count("<details") == shown.count("</details>") == 3


def test_a_bug_hunt_shows_the_wrong_code_and_hides_its_name():
    shown = labs.bug_hunt("lab-01", "row_parallel__averages_the_ranks")
    assert "def row_parallel(" in shown and "averages_the_ranks" not in shown
    assert "<details>" in shown and "averaged instead of added" in shown


@pytest.mark.parametrize(
    "ask",
    [
        lambda: labs.lab("lab-77"),
        lambda: labs.stub("lab-01:nothing"),
        lambda: labs.hints("lab-01:nothing"),
        lambda: labs.bug_hunt("lab-01", "row_parallel__nothing"),
        lambda: labs.fact("no-such-measurement"),
        lambda: labs.quote("nothing"),
        lambda: labs.capture("lab-02/captures/none.log"),
        lambda: labs.log_lines("lab-02/captures/tp2-engine/engine.log", "no such line"),
    ],
)
def test_what_a_lab_does_not_have_is_refused(ask):
    with pytest.raises(BookError):
        ask()


def test_a_screen_is_a_real_run_of_a_copy(tmp_path):
    cache = Cache(tmp_path / "cache", "")
    mistake = "row_parallel__averages_the_ranks"
    shown = screens.screen("lab-01", "starter", cache=cache, select="row_parallel", mistake=mistake)
    assert shown.startswith("```console\n$ pytest lab-01 -k row_parallel\n")
    assert "FAILED" in shown and "averaged instead of added" in shown
    assert str(tmp_path) not in shown and " in 0." not in shown
    again = screens.screen("lab-01", "starter", cache=cache, select="row_parallel", mistake=mistake)
    assert again == shown and cache.misses == 1


def test_a_solution_that_fails_is_no_screen(tmp_path, monkeypatch):
    copied = screens.copy_course

    def broken(folder, *chosen):
        (copy,) = copied(folder, *chosen)
        copy.file("solution").write_text("x = 1 / 0\n")
        return [copy]

    monkeypatch.setattr(screens, "copy_course", broken)
    with pytest.raises(BookError, match="ended with 1"):
        screens.screen("lab-01", "solution", cache=Cache(tmp_path, ""), select="row_parallel")


def test_an_unknown_mistake_cannot_be_planted(tmp_path):
    with pytest.raises(BookError, match="no mistake"):
        screens.screen("lab-01", "starter", cache=Cache(tmp_path, ""), mistake="nothing__at_all")


def test_quantities_read_well():
    assert human_bytes(8192) == "8\u00a0KiB"
    assert human_bytes(1536) == "1.5\u00a0KiB"
    assert human_bytes(1000 * 1024) == "1000\u00a0KiB"
    assert human_bytes(12) == "12\u00a0bytes"
    assert microseconds(16.4e-6) == "16.4\u00a0µs" and microseconds(0.0021) == "2.1\u00a0ms"
    assert table(["a", "b"], [[1, 2]], "lr") == "| a | b |\n| --- | --: |\n| 1 | 2 |"
