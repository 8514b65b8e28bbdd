"""Questions of defence with a key, and what is the same program as another."""

import ast
import random
import re
from pathlib import Path

import pytest

from grading import questions
from grading.gradebook import Gradebook, labs
from grading.handins import HandIn
from grading.similar import alike, fingerprints
from labkit.loading import load_module
from labkit.tasks import tasks_of
from tests.class_of_20 import programs
from tests.test_grading_exports import entry

LABS = list(dict.fromkeys(lab for lab, _ in questions.questions()))


def book_of(folder, *rows):
    """rows: (student, lab, source)."""
    book = Gradebook(folder)
    for student, lab, source in rows:
        one = HandIn(student, lab, student, "plain", source)
        book.keep_source(one)
        book.write(one, entry())
    return book, book.records()


def solution(lab):
    return labs()[lab].file("solution").read_bytes()


# --- questions ---------------------------------------------------------------------------------


def test_every_section_is_read_and_every_lab_has_questions():
    text = Path(questions.__file__).with_suffix(".md").read_text()
    assert len(questions.questions()) == text.count("\n## ") == text.count("\nKey: ")
    assert set(LABS) == set(labs())
    assert all([lab for lab, _ in questions.questions()].count(lab) >= 3 for lab in LABS)


@pytest.mark.parametrize(("lab", "function"), questions.questions())
def test_a_question_is_of_a_task_and_draws_many_numbers(lab, function):
    assert function in tasks_of(labs()[lab])
    module = load_module(labs()[lab].file("solution"))
    asked = [questions.asked(lab, function, random.Random(seed), module) for seed in range(60)]
    assert len({text for text, _ in asked}) > 40
    for text, key in asked:
        assert "?" in text and "your" in text.lower() and key.endswith(".")
        assert len(text) < 420 and not re.search(r"nan|inf\b|\d{7,}\.\d|0\.0000", text + key)


def test_the_key_is_right_by_a_second_way():
    """The two questions of the brief, with an oracle of their own."""
    lab01, lab03 = (load_module(labs()[lab].file("solution")) for lab in ("lab-01", "lab-03"))
    for seed in range(40):
        text, key = questions.asked("lab-01", "legal_tp_sizes", random.Random(seed), lab01)
        heads, kv_heads, width, size = map(int, re.findall(r"(\d+)(?: q| KV|\. What|, and)", text))
        split = [n for n in range(1, 17) if heads % n == 0 == width % n]
        legal = [n for n in split if kv_heads % n == 0 or n % kv_heads == 0]
        assert ast.literal_eval(key[: key.index("]") + 1]) == legal and size not in legal
        text, key = questions.asked("lab-03", "tensor_parallel_sides", random.Random(seed), lab03)
        weights, bandwidth = (
            float(re.search(p, text)[1]) for p in (r"^([\d.]+) GB", r"([\d.]+) TB")
        )
        count, ranks = (int(re.search(p, text)[1]) for p in (r"(\d+) messages", r"TP=(\d+)"))
        saved_s = weights * 1e9 / (bandwidth * 1e12) * (1 - 1 / ranks)
        turn = float(re.search(r"message of ([\d.]+)", key)[1])
        unit = 1e-6 if re.search(r"message of [\d.]+ us", key) else 1e-3
        assert turn * unit == pytest.approx(saved_s / count, rel=1e-3)


def test_the_keys_of_labs_05_and_06_are_right_by_a_second_way():
    """Ranks that step until all are done; a walk from each rank; the times themselves."""
    lab05, lab06 = (load_module(labs()[lab].file("solution")) for lab in ("lab-05", "lab-06"))
    for seed in range(40):
        text, key = questions.asked("lab-05", "steps_of_lockstep", random.Random(seed), lab05)
        work, every = re.match(
            r"Ranks have work for (\[.*?\]) steps and agree every (\d+)", text
        ).groups()
        work, every, steps = ast.literal_eval(work), int(every), 0
        while any(own > steps for own in work) or steps % every:
            steps += 1
        assert key.startswith(f"{steps} steps; dummies {[steps - own for own in work]}.")
        text, key = questions.asked("lab-06", "circle", random.Random(seed), lab06)
        graph = ast.literal_eval(re.search(r"\{.*?\}", text)[0])
        ways = {(a, b) for a, awaited in graph.items() for b in awaited}
        for _ in graph:
            ways |= {(a, d) for a, b in ways for c, d in ways if b == c}
        assert key.startswith(f"{sorted(a for a, b in ways if a == b)};")
        text, key = questions.asked("lab-06", "first_to_end", random.Random(seed), lab06)
        times, status = map(ast.literal_eval, re.findall(r"\[.*?\]", text))
        first = times.index(min(time for time in times if time is not None))
        assert key.startswith(f"Rank {first}, with status {status[first]};")


def test_five_of_ones_own_functions_and_no_two_students_alike(tmp_path):
    rows = [(f"s{n}", lab, solution(lab)) for n in range(30) for lab in LABS]
    book, table = book_of(tmp_path, *rows)
    sheets = questions.sheets(book, table)
    asked = [one["text"] for sheet in sheets.values() for one in sheet]
    assert len(asked) == 150 == len(set(asked))
    assert all(len({one["lab"] for one in sheet}) == 5 for sheet in sheets.values())
    assert questions.sheets(book, table) == sheets  # the same again
    (tmp_path / "secret").write_text("cd" * 16)
    assert questions.sheets(book, table) != sheets


def test_what_the_student_did_not_write_is_not_asked(tmp_path):
    one_task = programs()["one task"]
    text = one_task.replace(b"    raise NotImplementedError", b"    return 7\n    raise X", 4)
    book, table = book_of(tmp_path, ("ada", "lab-01", text), ("bo", "lab-01", b"x = ("))
    sheets = questions.sheets(book, table)
    assert {one["function"] for one in sheets["ada"]} <= {"row_parallel", "legal_tp_sizes"}
    assert sheets["ada"] and sheets["bo"] == []
    assert "no function of their own" in questions.as_text("bo", [])


def test_a_sheet_shows_the_students_own_lines_and_runs_nothing(tmp_path):
    source = solution("lab-01").replace(b"heads = shards(", b"heads = shards(  # <b>\x1b[2J mine\n")
    book, table = book_of(tmp_path, ("ada", "lab-01", source))
    sheet = questions.sheets(book, table)["ada"]
    text, page = questions.as_text("ada", sheet), questions.as_page("ada", sheet)
    assert "<b>" not in page and "\x1b" not in text + page and "default-src 'none'" in page
    for one in sheet:
        lines = source.decode().splitlines()
        numbers = [int(line.split()[0]) for line in one["lines"] if line.strip() != "..."]
        assert f"def {one['function']}(" in lines[numbers[0] - 1]
        assert one["lines"][0].split(None, 1)[1] == lines[numbers[0] - 1]
    assert page.index("Key: ada") > page.rindex("<pre>")


# --- the same program --------------------------------------------------------------------------


def test_formatting_and_names_make_no_other_program():
    same, other = programs()["renamed"], programs()["averaged"]
    wanted = tasks_of(labs()["lab-01"])
    shipped = fingerprints(solution("lab-01"), wanted)
    text = ast.unparse(ast.parse(same)).replace("ValueError(f'", "ValueError(f'no: ")
    assert fingerprints(text.encode(), wanted) == shipped
    changed = solution("lab-01").replace(b"copies = max(1,", b"copies = max(2,")
    differ = {n for n, p in fingerprints(changed, wanted).items() if p != shipped[n]}
    assert differ == {"attention_shards"} and fingerprints(other, wanted).keys() == shipped.keys()
    assert fingerprints(b"x = (" * 9000, wanted) == {} == fingerprints(b"\0", wanted)


def test_the_class_page_is_told_what_equals_what_as_a_fact(tmp_path):
    changed = solution("lab-01").replace(b"copies = max(1,", b"copies = max(2,")
    renamed = changed.replace(b"copies", b"how_often")
    rows = [("ada", "lab-01", programs()["renamed"]), ("bo", "lab-01", changed)]
    rows += [("cy", "lab-01", renamed), ("dee", "lab-01", programs()["untouched"])]
    facts = alike(*book_of(tmp_path, *rows))
    about = {tuple(who): fact for _, fact, who in facts}
    assert set(about) == {("ada",), ("bo", "cy")} | {k for k in about if len(k) == 2}
    assert "dee" not in str(facts)
    assert any("attention_shards" in fact and "each other's" in fact for _, fact, _ in facts)
