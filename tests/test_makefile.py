"""The environment that make creates, with an interpreter that only pretends."""

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
    (tmp_path / "book" / "requirements.txt").touch()
    python = tmp_path / "python"
    python.write_text(PYTHON, encoding="utf-8")
    python.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}

    def run(*arguments):
        command = ["make", f"PYTHON={python}", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, timeout=60)

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
