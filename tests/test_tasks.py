"""Tasks, hints and claims: what a learner asks for by a function's name or a task's number."""

import pytest

from labkit.claims import claims_in, points_of_tasks, settle, shown
from labkit.loading import find_labs
from labkit.tasks import hint, hints_of, line_of, task_of_check, tasks_of
from tests.conftest import ROOT

LABS_HERE = find_labs(ROOT)
each_lab = pytest.mark.parametrize("lab", LABS_HERE, ids=lambda lab: lab.prefix)


@each_lab
def test_every_task_has_a_check_points_and_three_hints(lab):
    points, hints = points_of_tasks(lab), hints_of(lab)
    checked = {task_of_check(lab, claim.name).function for claim in claims_in(lab)}
    for function in tasks_of(lab):
        assert len(hints.get(function, [])) == 3, function
        # a function that others are built on may be checked through its task's other function
        same_task = {t.function for t in tasks_of(lab).values() if t == tasks_of(lab)[function]}
        assert checked & (same_task | {function}) and points[function] >= 0, function


@each_lab
def test_no_docstring_of_a_task_holds_its_formula(lab):
    """The formula is the third hint; the stub must not print it."""
    source = lab.file("starter").read_text(encoding="utf-8")
    for function, texts in hints_of(lab).items():
        formula = texts[2].strip().strip("`").split("\n")[0]
        if len(formula) > 15:
            assert formula not in source, function


def test_a_hint_comes_in_three_levels_and_a_wrong_name_lists_the_choices():
    lab = LABS_HERE[0]
    texts = [hint(lab, wanted) for wanted in ("shards", "shards=2", "shards=3")]
    assert len(set(texts)) == 3 and "More" in texts[0] and "More" not in texts[2]
    code = hint(lab, "mlp_sp_rank=3")
    assert code.startswith("mlp_sp_rank, formula:\n") and "```" not in code + texts[2]
    for wrong in ("shard", "shards=4", "shards=x"):
        with pytest.raises(ValueError, match="hints for|levels are"):
            hint(lab, wrong)


def test_the_line_of_a_function_is_where_it_is_defined():
    lab = LABS_HERE[0]
    line = line_of(lab, "starter", "row_parallel")
    assert lab.file("starter").read_text().splitlines()[line - 1].startswith("def row_parallel(")
    assert line_of(lab, "starter", "no_such_function") == 0


def test_an_answer_to_guess_first_is_hidden_until_the_check_passes():
    assert shown("8 stages idle {10 %} with {63} microbatches", False) == (
        "8 stages idle … with … microbatches"
    )
    assert shown("8 stages idle {10 %}", True) == "8 stages idle 10 %"


def case(name, outcome, waits_for=()):
    record = {"name": name, "text": f"claim of {name}", "points": 1, "waits_for": list(waits_for)}
    return record | {"outcome": outcome, "message": "m", "hint": "", "broken": "", "crashed": False}


def test_a_claim_is_as_good_as_its_worst_case_and_waits_for_what_did_not_pass():
    cases = [case("a", "passed"), case("a", "failed"), case("b", "failed", ["a"])]
    cases += [case("c", "passed", ["a"]), case("d", "failed", ["c"]), case("e", "todo", ["a"])]
    outcomes = {claim["name"]: claim["outcome"] for claim in settle(cases)}
    assert outcomes == {"a": "failed", "b": "waits", "c": "passed", "d": "failed", "e": "todo"}
    assert [claim["name"] for claim in settle(cases, ["c"])] == ["a", "b", "d", "e"]


def test_a_failure_names_what_it_needs_and_was_not_selected():
    failed = case("test_mlp__adds", "failed", ["test_shards__are_equal"])
    assert settle([failed])[0]["message"] == "m"
    needs = failed | {"needs": ["shards"]}
    assert settle([needs])[0]["message"] == (
        "it needs shards, which does not pass; write that first. (m)"
    )
    assert settle([failed, case("test_shards__are_equal", "passed")])[0]["message"] == "m"
    own = case("test_mlp__adds", "failed", ["test_mlp__is_right"])
    assert settle([own])[0]["message"] == "m"


def test_a_task_or_a_name_that_selects_nothing_says_what_there_is(read_only_course):
    run = read_only_course.pytest("lab-01", "--task", "99")
    assert run.status == 4 and "--task 99: the tasks are 1 to 8" in run.text
    run = read_only_course.pytest("lab-01", "-k", "nothing")
    assert run.status == 5 and "The functions: shards, " in run.text


def test_task_and_function_find_the_same_checks(read_only_course):
    assert read_only_course.pytest("lab-01", "--task", "1", "--task", "99").status == 4
    by_number = read_only_course.pytest("lab-01", "--task", "3")
    by_name = read_only_course.pytest("lab-01", "-k", "row_parallel")
    for run in (by_number, by_name):
        assert run.status == 0 and "task 3 · row_parallel" in run.text
        assert "task 2" not in run.text and "task 4" not in run.text
    assert read_only_course.pytest("lab-01", "--hint", "shards").text.startswith("shards, idea: ")


def test_open_tasks_are_fine_where_asked_for_and_a_failure_is_not(course):
    assert course.pytest("lab-01", "--open-tasks-ok", impl="starter").status == 0
    text = course.starter.read_text(encoding="utf-8")
    wrong = "def shards(*a):\n    return 0\n\n\ndef hidden("
    course.starter.write_text(text.replace("def shards(", wrong, 1), encoding="utf-8")
    assert course.pytest("lab-01", "--open-tasks-ok", impl="starter").status == 1
