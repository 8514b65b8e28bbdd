"""LAB_IMPL and the spellings of a lab: the file that was named is graded, or nothing is."""

import hashlib
import os

import pytest

from tests.conftest import LAB_01, LABS

ONE = "test_shards__are_equal_blocks_in_rank_order"


@pytest.mark.parametrize("typo", ["pratice", "Solution", "starter.py", ""])
def test_a_typo_in_lab_impl_is_one_clear_usage_error(read_only_course, typo):
    run = read_only_course.pytest("lab-01", impl=typo)
    assert run.status == 4
    assert len(run.text.strip().splitlines()) == 1
    assert repr(typo) in run.text and "'solution'" in run.text and "'starter'" in run.text


def test_the_solution_is_graded_by_default_and_the_starter_on_request(read_only_course):
    solution = read_only_course.pytest("lab-01")
    starter = read_only_course.pytest("lab-01", impl="starter")
    assert solution.status == 0 and "100/100 points" in solution.text
    assert starter.status == 1 and "0/100 points" in starter.text
    for run, name in ((solution, "solution.py"), (starter, "starter.py")):
        digest = hashlib.sha256((read_only_course.lab / name).read_bytes()).hexdigest()
        assert f"{name} {digest[:12]}" in run.text


def test_a_missing_starter_fails_and_nothing_else_is_graded(course):
    course.starter.unlink()
    run = course.pytest("lab-01", impl="starter")
    assert run.status == 1
    assert "starter.py is missing" in run.text and "0/100 points" in run.text
    assert "passed" not in run.text


@pytest.mark.parametrize(
    ("folder", "arguments"),
    [
        (".", ["lab-01", "-q"]),
        (".", ["lab-01-tp"]),
        (".", [str(LAB_01)]),
        (".", [str(LABS), "-m", "not gpu"]),
        (".", ["-m", "not gpu"]),
        (".", ["lab-01", "-n", "2"]),
        (LABS, ["lab-01"]),
        (LABS, ["lab-01-tp-sharding-math"]),
        (LABS, []),
        (LAB_01, ["lab-01"]),
        (LAB_01, []),
        (LAB_01, ["test_lab.py"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value)[-12:],
)
def test_every_spelling_grades_the_whole_lab(read_only_course, folder, arguments):
    run = read_only_course.pytest(*arguments, cwd=read_only_course.root / folder)
    assert run.status == 0, run.text
    assert "lab-01-tp-sharding-math" in run.text and "100/100 points" in run.text


@pytest.mark.parametrize("folder", [".", LABS, LAB_01])
def test_a_single_check_can_be_named(read_only_course, folder):
    run = read_only_course.pytest(f"lab-01::{ONE}", cwd=read_only_course.root / folder)
    assert run.status == 0 and "1 passed" in run.text
    assert "5/100 points, 95 not selected" in run.text


def test_a_check_that_is_not_there_gets_a_sentence_with_the_functions(read_only_course):
    run = read_only_course.pytest("lab-01::test_row_paralel")
    assert run.status == 4 and "lab-01 has no check test_row_paralel" in run.text
    assert "-k FUNCTION" in run.text and "row_parallel," in run.text


def test_unknown_and_ambiguous_labs_list_the_choices(course):
    course.add_lab("lab-09-other", "x = 1\n", "def test_x(lab):\n    assert lab.x == 1\n")
    ambiguous = course.pytest("lab-0")
    unknown = course.pytest("lab-7")
    assert ambiguous.status == unknown.status == 4
    for run, word in ((ambiguous, "ambiguous"), (unknown, "not a lab")):
        assert word in run.text
        assert "lab-01-tp-sharding-math" in run.text and "lab-09-other" in run.text


def test_each_lab_loads_under_a_name_of_its_own(course):
    """Two labs with a module constant of the same name, one broken by the other's import."""
    test = "def test_name(lab):\n    assert lab.WHO == {who!r}\n"
    spy = "import sys\nWHO = [n for n in sys.modules if n in ('solution', 'starter')]\n"
    course.add_lab("lab-08-other", "WHO = 'eight'\n", test.format(who="eight"))
    course.add_lab("lab-09-spy", spy, test.format(who=[]))
    run = course.pytest("lab-08", "lab-09")
    assert run.status == 0, run.text


def test_a_lab_cannot_import_its_own_or_another_labs_solution(course):
    cheat = "from solution import *\n"
    course.starter.write_text(cheat, encoding="utf-8")
    run = course.pytest("lab-01", impl="starter")
    assert "starter.py line 1: ModuleNotFoundError" in run.text


def test_stale_bytecode_is_never_graded(course):
    """The source changes, size and time stay, as a restored backup may do."""
    folder = course.add_lab("lab-08-x", "x = 1\n", "def test_x(lab):\n    assert lab.x == 1\n")
    assert course.pytest("lab-08").status == 0
    path = folder / "solution.py"
    stat = path.stat()
    path.write_text("x = 2\n", encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert course.pytest("lab-08").status == 1


def test_without_the_course_tests_packages_the_labs_are_graded_and_the_rest_is_named(course):
    """What `make labs` installs has no hypothesis; `pytest` must still work there."""
    (course.root / "tests").mkdir()
    (course.root / "tests" / "test_course.py").write_text("import hypothesis\n")
    hide = (
        "import importlib.util as u, sys, pytest\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'hypothesis' else real(name, *rest)\n"
        "sys.exit(pytest.main(['-m', 'not gpu', '-p', 'pytest_timeout', *sys.argv[1:]]))"
    )
    run = course.run("-c", hide, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert run.status == 0, run.text
    assert "100/100 points" in run.text
    named = course.run("-c", hide, "tests", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    for text in (run.text, named.text):
        assert "tests/ not run here: make test installs what it needs" in text
