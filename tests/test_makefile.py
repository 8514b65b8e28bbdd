"""The environment that make creates, with an interpreter that only pretends."""

import json
import os
import shutil
import subprocess

import pytest

from tests.conftest import ROOT

PYTHON = """#!/bin/sh
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip")
    test -e online || { echo "the index cannot be reached" >&2; exit 1; }
    mkdir pip-at-work || echo yes > pips-met
    sleep 0.1
    rmdir pip-at-work ;;
esac
exit 0
"""


@pytest.fixture
def make(tmp_path):
    if not shutil.which("make"):
        pytest.skip("not run here: needs make")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "book").mkdir()
    phase = tmp_path / "phase-10-distributed-inference"
    (phase / "labs").mkdir(parents=True)
    shutil.copy(ROOT / phase.name / "Makefile", phase / "Makefile")
    (tmp_path / "book" / "requirements.txt").touch()
    python = tmp_path / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}

    def run(*arguments, folder="."):
        command = ["make", f"PYTHON={python}", *arguments]
        return subprocess.run(
            command, cwd=tmp_path / folder, env=clean, capture_output=True, timeout=60
        )

    return run


def test_an_environment_that_could_not_be_made_is_made_anew(make, tmp_path):
    first = make("labs")
    assert first.returncode and b"make can be tried again" in first.stderr
    (tmp_path / "online").touch()
    again = make("labs")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / ".venv" / ".group-labs").exists()


def test_two_pips_never_work_on_one_environment(make, tmp_path):
    (tmp_path / "online").touch()
    done = make("-j4", "labs", "test", "book")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".venv" / ".group-book").exists()
    assert not (tmp_path / "pips-met").exists()


def test_make_works_from_the_phase_s_folder_where_a_folder_is_called_labs(make, tmp_path):
    (tmp_path / "online").touch()
    done = make("labs", folder="phase-10-distributed-inference")
    assert done.returncode == 0 and (tmp_path / ".venv" / ".group-labs").exists(), done.stderr


def test_watch_takes_the_lab_of_the_next_open_task(course):
    from labkit.loading import find_labs
    from labkit.watch import at_hand

    labs = find_labs(course.root)
    assert at_hand(labs).name == course.lab.name
    course.starter.write_text("written = True\n", encoding="utf-8")
    assert at_hand(labs) is None


def test_the_last_page_comes_when_every_lab_is_complete_and_not_before(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.syspath_prepend(str(ROOT / "phase-10-distributed-inference" / "labs"))
    monkeypatch.setenv("LAB_IMPL", "solution")
    import finale

    from labkit.loading import find_labs
    from labkit.tasks import tasks_of

    labs = find_labs()

    def last_page(labs, open_lab=None, stretch=False):
        """What it prints when all is done but one task of open_lab."""
        entries = []
        for lab in labs:
            tasks = tasks_of(lab)
            claims = [{"function": name, "outcome": "passed"} for name in tasks]
            if lab is open_lab:
                one = next(c for c in claims if tasks[c["function"]].stretch is stretch)
                one["outcome"] = "todo"
            points = {"earned": 93 if lab is open_lab else 100, "not_run": 0, "total": 100}
            entries.append({"lab": lab.name, "points": points, "claims": claims})
        scores = tmp_path / "scores.json"
        scores.write_text(json.dumps({"labs": entries}), encoding="utf-8")
        finale.main(scores)
        return capsys.readouterr().out

    with_stretch = next(lab for lab in labs if any(t.stretch for t in tasks_of(lab).values()))
    assert last_page(labs[:-1]) == last_page(labs, labs[0]) == ""
    shown, total = last_page(labs), 100 * len(labs)
    assert f"{total} of {total} points" in shown and "vllm serve" in shown
    assert "stretch" not in shown
    assert "The stretch tasks are 7 more" in last_page(labs, with_stretch, stretch=True)
