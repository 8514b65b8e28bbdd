"""The scoreboard: three outcomes, one sentence per failure, the same in a pipe and under xdist."""

import json
import re

import pytest

from tests.conftest import LABS, ROOT, Course

SOLVED = "test_shards__are_equal_blocks_in_rank_order"


def solve(course, *functions, wrong=()):
    """Fill the starter's `functions` with the solution's bodies; `wrong` is (old, new) text."""
    solution = (course.lab / "solution.py").read_text(encoding="utf-8")
    text = course.starter.read_text(encoding="utf-8")
    for name in functions:
        body = re.search(
            rf"def {name}\(.*?# BEGIN SOLUTION[^\n]*\n(.*?)\n    # END SOLUTION", solution, re.S
        )[1]
        stub = rf"(def {name}\(.*?)    raise NotImplementedError\(\n.*?\n    \)"
        text = re.sub(stub, lambda found, body=body: found[1] + body, text, count=1, flags=re.S)
    for old, new in wrong:
        assert old in text
        text = text.replace(old, new)
    course.starter.write_text(text, encoding="utf-8")


def scores(course, *arguments, impl="starter"):
    run = course.pytest("lab-01", "--scores", "scores.json", *arguments, impl=impl)
    return run, json.loads((course.root / "scores.json").read_text(encoding="utf-8"))


def test_a_fresh_starter_fits_on_one_screen_and_says_what_is_next(read_only_course):
    run = read_only_course.pytest("lab-01", impl="starter")
    lines = run.text.splitlines()
    assert run.status == 1
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert "\x1b" not in run.text
    line = 1 + read_only_course.starter.read_text().split("def shards(")[0].count("\n")
    assert f"next: task 1, shards, starter.py:{line} (about 6 lines)" in run.text
    assert run.text.count("todo ") >= 8 and "FAILED" not in run.text
    assert "todo   8  task 1 · shards" in run.text


def test_a_finished_lab_says_so_once_and_names_the_next(course):
    course.starter.write_text((course.lab / "solution.py").read_text(), encoding="utf-8")
    order = course.lab.parent / "order.txt"
    order.write_text(f"{course.lab.name}: make it run\nlab-08-x\n", encoding="utf-8")
    run = course.pytest("lab-01", impl="starter")
    assert run.text.count("lab-01 is complete") == 1 and "next: lab-08-x" in run.text
    assert "\n  now: make it run\n" in run.text


def test_of_several_labs_only_the_one_at_work_is_shown_whole(course):
    test = "import pytest\n@pytest.mark.points(100)\ndef test_x(lab):\n    assert lab.x == 1\n"
    course.add_lab("lab-08-x", "x = 1\n", test)
    fresh = course.pytest(impl="starter").text
    assert "todo" in fresh.splitlines()[-1] and "task 1 · shards" not in fresh
    assert "Now you, lab-01: task 1, shards" in " ".join(fresh.split())
    solve(course, "shards")
    begun = course.pytest(impl="starter").text
    assert "Now you, lab-01: task 2, column_parallel" in " ".join(begun.split())
    assert "passed   5" in begun and "passed 100" not in begun
    course.starter.write_text((course.lab / "solution.py").read_text(), encoding="utf-8")
    done = course.pytest(impl="starter").text
    assert done.count("100/100 points") == 2 and "Now you" not in done and "passed   5" not in done


def test_a_task_that_passes_names_the_next_one(course):
    solve(course, "shards")
    run = course.pytest("lab-01", "--task", "1", impl="starter")
    assert run.status == 0 and "next: task 2, column_parallel, starter.py:" in run.text


def test_a_function_that_is_gone_is_missed_by_its_name(course):
    solve(course, wrong=[("def shards(", "def shard(")])
    run = course.pytest("lab-01", "--task", "1", impl="starter")
    assert "starter.py has no `def shards` any more" in " ".join(run.text.split())


def test_a_failure_names_what_it_builds_on_if_that_does_not_pass_either(course):
    wrong = ("for mine in inputs])[0]", "for mine in inputs])[0] / num_ranks")
    solve(course, "shards", "row_parallel", wrong=[wrong])
    alone = course.pytest("lab-01", "-k", "row_parallel", impl="starter")
    assert "off by" in " ".join(alone.text.split()) and "it needs" not in alone.text
    whole = "\n\ndef shards(dimension, size, num_ranks):\n    return [slice(0, size)] * num_ranks\n"
    with course.starter.open("a", encoding="utf-8") as file:
        file.write(whole)
    both = course.pytest("lab-01", "-k", "row_parallel", impl="starter")
    told = " ".join(both.text.split())
    assert "it needs shards, which does not pass; write that first." in told
    assert "next: task 1, shards" in told


def test_colour_on_a_terminal(read_only_course):
    run = read_only_course.pytest("lab-01", "--color=yes", impl="starter")
    assert "\x1b[33m" in run.text


def test_a_failure_is_one_sentence_with_the_hint_and_no_traceback(course):
    wrong = ("for mine in inputs])[0]", "for mine in inputs])[0] / num_ranks")
    solve(course, "shards", "row_parallel", wrong=[wrong])
    run = course.pytest("lab-01", impl="starter")
    text = " ".join(run.text.split())
    assert "num_ranks=4): off by" in text
    assert "every element is 1/4 times the expected one" in text
    assert "Hint: your result is what you get when the partial sums are averaged" in text
    assert "Traceback" not in run.text and "def test_" not in run.text
    assert max(map(len, run.text.splitlines())) <= 80


BROKEN = {
    "a wrong signature": (
        "def column_parallel(x, W):\n    return x",
        "column_parallel(x[5, 24], W[48, 24], num_ranks=4): TypeError: column_parallel() takes 2",
    ),
    "a wrong keyword": (
        "def column_parallel(x, W, num_ranks):\n    return all_gather([x], dim=-1)",
        "column_parallel(x[5, 24], W[48, 24], num_ranks=4): starter.py line {line}: TypeError: ",
    ),
    "shapes that do not fit": (
        "def column_parallel(x, W, num_ranks):\n    return x @ W[:, num_ranks // 2 :].T",
        "column_parallel(x[5, 24], W[48, 24], num_ranks=4): starter.py line {line}: ValueError: ",
    ),
    "another function that refuses": (
        "def column_parallel(x, W, num_ranks):\n    return [shards('in', 7, p) for p in (1, 2)]",
        "num_ranks=4): starter.py line {line} (line {refusal} in shards): ValueError: in=7 is not",
    ),
    "an assertion of one's own": (
        "def column_parallel(x, W, num_ranks):\n    assert num_ranks < 3, 'my own'",
        "column_parallel(x[5, 24], W[48, 24], num_ranks=4): starter.py line {line}: "
        "AssertionError: my own",
    ),
    "a bare assertion": (
        "def column_parallel(x, W, num_ranks):\n    assert num_ranks > 8",
        "num_ranks=4): starter.py line {line}: assert num_ranks > 8",
    ),
}


@pytest.mark.parametrize(("code", "said"), BROKEN.values(), ids=BROKEN)
def test_an_exception_names_the_call_and_the_line_and_is_no_known_mistake(course, code, said):
    if "assert num_ranks < 3" in code:  # right until then
        code += "\n    return dense(x, W)\n\ndef dense(x, W):\n    return x @ W.T"
    solve(course, "shards", wrong=[("def column_parallel(", code + "\n\ndef hidden(")])
    lines = course.starter.read_text(encoding="utf-8").splitlines()
    line = next(at for at, text in enumerate(lines, 2) if text.startswith("def column_parallel"))
    refusal = next(at for at, text in enumerate(lines, 2) if "size % num_ranks" in text)
    run = course.pytest("lab-01", "-k", "column_parallel__equals", impl="starter")
    text = " ".join(run.text.split())
    assert said.format(line=line, refusal=refusal) in text
    assert "Expected an array of shape [5, 48]." in text or "assert num_ranks > 8" in code
    assert "Hint" not in text


def test_a_check_that_stumbles_over_a_result_names_the_call_before(course):
    test = "def test_it(lab):\n    assert lab.f(n=3)[0] == 1\n"
    course.add_lab("lab-08-x", "def f(n):\n    return {}\n", test)
    assert "after f(n=3): KeyError: 0" in course.pytest("lab-08").text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("[][group.all_reduce(x).size - 1 + group.rank]", "IndexError: list index"),
        ("group.reduce_scatter(x)", "which 3 ranks do not divide"),
    ],
    ids=["in a rank", "in a collective"],
)
def test_a_crash_of_one_rank_shows_its_call_and_not_that_of_one_let_go(course, code, said):
    test = "import numpy as np\nfrom collectives import run_ranks\n\ndef test_it(lab):\n"
    test += "    run_ranks(lab.f, [(np.ones(n),) for n in (1, 1, 1)])\n"
    course.add_lab("lab-08-x", f"def f(x, group):\n    return {code}\n", test)
    text = " ".join(course.pytest("lab-08").text.split())
    assert "f(x[1], group=3 ranks): " in text and "after f" not in text and said in text


def test_a_sentence_about_one_rank_shows_what_that_rank_was_given(tmp_path):
    course = Course(tmp_path, next((ROOT / LABS).glob("lab-05-*")))
    right = (course.lab / "solution.py").read_text(encoding="utf-8")
    wrong = right.replace("group.reduce_scatterv(partial, sizes)", "group.all_reduce(partial)")
    course.starter.write_text(wrong, encoding="utf-8")
    text = course.pytest("lab-05", "-k", "gathered_rank", "--call", impl="starter").text
    said = r"gathered_rank\(x\[(\d+), .*sizes=\[(\d+), .* on rank 0: .* expected .*\[(\d+), "
    tokens, *others = map(int, re.search(said, " ".join(text.split())).groups())
    rows = re.search(r"ids = array\(\[(.*?)\]\)", text, re.S)[1].count("]")
    assert [tokens, tokens] == others and rows == tokens


def test_a_generator_is_judged_by_the_check(course):
    code = "def shards(*a):\n    yield 12\n\ndef hidden("
    solve(course, wrong=[("def shards(", code)])
    text = " ".join(course.pytest(f"lab-01::{SOLVED}", impl="starter").text.split())
    assert "returned a generator, expected a list" in text


def test_tb_brings_the_traceback_back(course):
    solve(course, wrong=[("def shards(", "def shards(*a):\n    return 0\n\ndef hidden(")])
    assert "def test_shards" not in course.pytest("lab-01", impl="starter").text
    assert "def test_shards" in course.pytest("lab-01", "--tb=long", impl="starter").text


def test_a_check_waits_for_the_one_it_builds_on(course):
    """mlp_tp returns zeros: its value fails; its traffic and share wait, with no second cause."""
    solve(course, "shards")
    text = course.starter.read_text(encoding="utf-8")
    stub = re.search(r"def mlp_tp\(.*?(    raise NotImpl.*?\n    \))", text, re.S)[1]
    zeros = "    return np.zeros((*x.shape[:-1], W2.shape[1]))"
    course.starter.write_text(text.replace(stub, zeros, 1), encoding="utf-8")
    _, result = scores(course)
    claims = {claim["name"]: claim for claim in result["labs"][0]["claims"]}
    assert claims["test_mlp_tp__equals_the_dense_mlp"]["outcome"] == "failed"
    assert claims["test_mlp_tp__makes_exactly_one_all_reduce"]["outcome"] == "waits"
    assert "mlp_tp" in claims["test_mlp_tp__makes_exactly_one_all_reduce"]["message"]
    assert claims["test_column_parallel__makes_one_all_gather"]["outcome"] == "todo"
    assert claims[SOLVED]["outcome"] == "passed"


def test_scores_add_up_and_match_the_schema(course):
    solve(course, "shards", "column_parallel")
    _, result = scores(course)
    assert result["schema"] == "lab-scores/1" and result["implementation"] == "starter"
    (lab,) = result["labs"]
    assert lab["file"] == "starter.py" and re.fullmatch("[0-9a-f]{64}", lab["sha256"])
    assert sum(claim["points"] for claim in lab["claims"]) == 100
    passed = [claim for claim in lab["claims"] if claim["outcome"] == "passed"]
    assert {claim["task"] for claim in passed} == {1, 2}
    assert lab["points"]["earned"] == sum(claim["points"] for claim in passed) == 22
    assert lab["points"]["total"] == 100 and lab["points"]["not_selected"] == 0


def test_xdist_gives_the_same_scoreboard(course):
    solve(course, "shards", "column_parallel")
    _, alone = scores(course)
    _, spread = scores(course, "-n", "2")
    assert alone == spread


def test_a_scores_file_that_stands_elsewhere_is_written_again(course, tmp_path_factory):
    file = tmp_path_factory.mktemp("elsewhere") / "scores.json"
    for _ in range(2):
        assert course.pytest("lab-01", f"--scores={file}").status == 0
    assert json.loads(file.read_text(encoding="utf-8"))["labs"][0]["points"]["earned"] == 100


def test_a_scores_file_in_no_folder_is_a_usage_error(read_only_course):
    run = read_only_course.pytest("lab-01", "--scores", "nowhere/scores.json")
    assert run.status == 4 and "nowhere/scores.json" in run.text


def test_a_syntax_error_is_one_line_and_the_other_labs_are_still_graded(course):
    course.add_lab("lab-08-x", "x = 1\n", "def test_x(lab):\n    assert lab.x == 1\n")
    text = course.starter.read_text(encoding="utf-8")
    course.starter.write_text(text + "\ndef broken(:\n", encoding="utf-8")
    line = text.count("\n") + 2
    run = course.pytest(impl="starter")
    assert run.status == 1
    assert f"cannot be graded: starter.py line {line}: invalid syntax" in run.text
    assert "1 passed" in run.text
    assert len(run.text.splitlines()) <= 16


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import no_such_module", "starter.py line 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(0)", "starter.py line 1: SystemExit: 0"),
        ("x = 1 / 0", "starter.py line 1: ZeroDivisionError: division by zero"),
        ("\0", "cannot be graded: starter.py line"),
    ],
)
def test_a_file_that_cannot_be_imported_says_why(course, code, sentence):
    course.starter.write_text(code + "\n", encoding="utf-8")
    run = course.pytest("lab-01", impl="starter")
    assert run.status == 1 and "0/100 points" in run.text
    assert sentence in " ".join(run.text.split())


def test_prints_do_not_disturb_the_screen(course):
    solve(course, "shards")
    text = course.starter.read_text(encoding="utf-8")
    noisy = text.replace(
        "    if num_ranks < 1:", "    print('NOISE' * 99)\n    if num_ranks < 1:", 1
    )
    course.starter.write_text("print('NOISE')\n" + noisy, encoding="utf-8")
    run, result = scores(course)
    assert "NOISE" not in run.text
    assert result["labs"][0]["points"]["earned"] == 8


def test_where_a_hint_is_looked_for_nothing_is_heard(course):
    """The learner's function runs a hundred times more; the check's own prints stand below it."""
    line = "return all_reduce([x[..., mine] @ W[:, mine].T for mine in inputs])[0]"
    heard = f"import sys\n    print('NOISE')\n    print('NOISE', file=sys.stderr)\n    {line}"
    solve(course, "shards", "row_parallel", wrong=[(line, f"{heard} / num_ranks")])
    run, result = scores(course)
    (claim,) = [claim for claim in result["labs"][0]["claims"] if claim["hint"]]
    assert 0 < run.text.count("NOISE") == claim["printed"].count("NOISE") < 9


def test_an_endless_loop_ends_at_the_time_limit(course):
    loop = (
        "def shards(*a):\n    import threading\n    print('mine')\n"
        "    threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "    while True:\n        pass\n\ndef hidden("
    )
    solve(course, wrong=[("def shards(", loop)])
    run = course.pytest(f"lab-01::{SOLVED}", "--timeout=1", impl="starter")
    assert run.status == 1
    text = " ".join(run.text.split())
    assert re.search(r"shards\(dimension=.*, num_ranks=\d\) did not finish within 1 s", text)
    assert "mine" in text and "Timeout" not in text and "Stack of" not in text  # of that thread


def test_what_waits_for_an_endless_loop_is_not_run(course):
    test = """
from pathlib import Path
import pytest

@pytest.mark.points(50)
@pytest.mark.parametrize("case", [1, 2])
def test_loops(lab, case):
    Path(f"ran-{case}").touch()
    lab.f()

@pytest.mark.points(30)
@pytest.mark.waits_for("test_loops")
def test_waits(lab):
    Path("ran-3").touch()

@pytest.mark.points(20)
@pytest.mark.waits_for("test_waits")
def test_waits_for_what_waits(lab):
    Path("ran-4").touch()
"""
    course.add_lab("lab-08-x", "def f():\n    while True:\n        pass\n", test)
    run = course.pytest("lab-08", "--timeout=1")
    assert sorted(path.name for path in course.root.glob("ran-*")) == ["ran-1"]
    assert "f() did not finish within 1 s" in run.text
    assert "waits  30" in run.text and "waits  20" in run.text and "0/100 points" in run.text


def test_an_endless_import_costs_one_time_limit_not_one_per_check(course):
    course.starter.write_text("while True:\n    pass\n", encoding="utf-8")
    run = course.pytest("lab-01", "--timeout=1", impl="starter")
    assert run.status == 1 and "0/100 points" in run.text
    assert float(re.search(r"in ([\d.]+)s", run.text)[1]) < 8


def test_a_skip_from_the_learners_code_earns_nothing(course):
    skip = "import pytest\n\n\ndef shards(*a):\n    pytest.skip('done')\n\ndef hidden("
    solve(course, wrong=[("def shards(", skip)])
    run, result = scores(course)
    assert run.status == 1
    assert result["labs"][0]["points"]["earned"] == 0
    outcomes = {claim["outcome"] for claim in result["labs"][0]["claims"]}
    assert "passed" not in outcomes and "not_run" not in outcomes


def test_a_planted_failure_is_red(course):
    path = course.lab / "test_lab.py"
    planted = "\n\n@pytest.mark.points(0)\ndef test_planted(lab):\n    assert 1 + 1 == 3\n"
    path.write_text(path.read_text(encoding="utf-8") + planted, encoding="utf-8")
    run = course.pytest("lab-01")
    assert run.status == 1 and "FAILED   0  test_planted" in run.text


def test_not_run_here_is_not_earned_and_says_what_would_run_it(course):
    test = """
import pytest

@pytest.mark.points(60)
def test_here(lab):
    assert lab.x == 1

@pytest.mark.points(30)
@pytest.mark.gpu(512)
def test_there(lab):
    assert lab.x == 1

@pytest.mark.points(6)
@pytest.mark.vllm
def test_engine(lab):
    assert lab.x == 1

@pytest.mark.points(4)
@pytest.mark.torch
def test_gloo(lab):
    assert lab.x == 1
"""
    course.add_lab("lab-08-x", "x = 1\n", test)
    hide = {"LAB_VLLM_PYTHON": "none", "LAB_TORCH": "none"}
    run = course.pytest("lab-08", **hide)
    assert run.status == 0
    assert "60/100 points, " in run.text and "not run here" in run.text
    assert "not run  30" in run.text and "needs 512 CUDA device(s)" in run.text
    assert "needs vLLM: make vllm" in run.text and "needs Torch: make torch" in run.text
    chosen = course.pytest("lab-08", "-m", "not gpu and not vllm and not torch", **hide)
    assert "60/100 points, 40 not selected" in chosen.text


def test_every_skip_is_said_by_its_cause(course):
    here = "@pytest.mark.skipif(True, reason='{}')\ndef test_{}(): ...\n"
    causes = ("only at night", "only at night", "not run here: needs a cluster")
    test = "import pytest\n" + "".join(here.format(why, n) for n, why in enumerate(causes))
    (course.root / "test_more.py").write_text(test, encoding="utf-8")
    text = course.pytest("test_more.py").text
    assert "not run here: 2 tests: only at night\n" in text
    assert "not run here: 1 test: needs a cluster\n" in text


def test_a_lab_without_tests_is_an_error(course):
    course.add_lab("lab-08-x", "x = 1\n", "# all commented out\n")
    run = course.pytest()
    assert run.status != 0 and "has no tests" in run.text


@pytest.mark.parametrize(
    ("stop", "arguments", "status"),
    [("raise KeyboardInterrupt", [], 2), ("assert False, 'stop here'", ["-x"], 1)],
)
def test_what_a_stopped_run_did_not_reach_is_told_from_what_was_not_selected(
    course, stop, arguments, status
):
    test = f"""
import pytest

@pytest.mark.points(20)
def test_first(lab):
    pass

@pytest.mark.points(30)
@pytest.mark.parametrize("case", [1, 2])
def test_cases(lab, case):
    if case == 2:
        {stop}

@pytest.mark.points(40)
def test_after(lab):
    pass

@pytest.mark.points(10)
def test_other(lab):
    pass
"""
    course.add_lab("lab-08-x", "x = 1\n", test)
    run = course.pytest("lab-08", "-k", "not other", *arguments)
    left = 70 if status == 2 else 40
    said = f"20/100 points, stopped, {left} not reached, 10 not selected"
    assert run.status == status and said in run.text
    complete = course.pytest("lab-08", "-k", "not other and not cases")
    assert "60/100 points, 40 not selected" in complete.text


def test_the_stretch_counts_apart(course):
    """Who stops before the stretch has finished the lab, and is told so."""
    solution = (course.lab / "solution.py").read_text(encoding="utf-8")
    course.starter.write_text(
        re.sub(
            r"# BEGIN SOLUTION \(task \d, stretch\)\n.*?# END SOLUTION",
            'raise NotImplementedError("to do")',
            solution,
            flags=re.S,
        ),
        encoding="utf-8",
    )
    run = course.pytest("lab-01", impl="starter")
    said = " ".join(run.text.split())
    assert "84/100 points" in said
    assert "lab-01 without its stretch is complete: 84 of 84 points. The stretch is 16 more" in said
    assert "next (stretch): task 7, embedding_rank" in said
    test = "import pytest\n@pytest.mark.points(100)\ndef test_f(lab):\n    assert lab.f() == 1\n"
    undone = 'def f():\n    raise NotImplementedError("lab-08 · f is yours to write (1 line).")\n'
    course.add_lab("lab-08-x", undone, test)
    assert "Now you, lab-08" in course.pytest("lab-01", "lab-08", impl="starter").text


def test_a_stretch_task_is_named_last(course):
    """A stretch may stand before other tasks, as in lab 05 and the capstone."""
    unwritten = """
def {0}():
    # BEGIN SOLUTION (task {1})
    raise NotImplementedError("lab-08 · {0} is yours to write (1 line).")
    # END SOLUTION
"""
    tasks = (("done", "1"), ("extra", "2, stretch"), ("later", "3"))
    code = "".join(unwritten.format(*task) for task in tasks)
    check = """
@pytest.mark.points({1})
def test_{0}__works(lab):
    assert lab.{0}() is None
"""
    checks = (("done", 50), ("extra", 20), ("later", 30))
    tests = "import pytest\n" + "".join(check.format(*one) for one in checks)
    folder = course.add_lab("lab-08-x", code, tests)
    written = re.sub("raise .*done is.*", "return None", code)
    (folder / "starter.py").write_text(written, encoding="utf-8")
    for arguments in ([], ["--task", "1"]):
        text = course.pytest("lab-08", *arguments, impl="starter").text
        assert "next: task 3, later" in text, text
    written = re.sub("raise .*later is.*", "return None", written)
    (folder / "starter.py").write_text(written, encoding="utf-8")
    for arguments in ([], ["--task", "1"]):
        text = course.pytest("lab-08", *arguments, impl="starter").text
        assert "next (stretch): task 2, extra" in text, text
