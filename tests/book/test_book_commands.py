"""The commands that chapters and READMEs show: each is run, or asked whether it would run.

pytest commands are collected (the book runs the labs themselves when it is built), make targets are
asked for their plan, scripts run in a copy of the lab. A command that no rule covers fails.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib

import pytest
from book_checks import REPO, shown_commands

READMES = [REPO / "README.md", *sorted(REPO.glob("phase-*/**/README.md"))]
FILES = [*sorted((REPO / "book" / "src").glob("*.md")), *READMES]

pytestmark = pytest.mark.timeout(120)


def every_command():
    """{(command, folder it is shown for)} in the order of the files."""
    found = {}
    for file in FILES:
        folder = file.parent
        for command in shown_commands(file.read_text(encoding="utf-8")):
            if command.startswith("cd "):
                folder = REPO / command.removeprefix("cd ")
            name = f"{file.parent.name}/{file.name}: {command}"
            found.setdefault((command, folder), name)
    return found


COMMANDS = every_command()
SHELL = (
    ". .venv/bin/activate",
    'python3 -m venv .venv && . .venv/bin/activate && pip install "pip>=25.1"',
    "cp canvas-gradebook.csv grades/roster.csv",
)
QUICK = ("grid.py",)  # scripts that run in a second, with nothing but numpy


def run(words, folder, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LAB_"))}
    clean |= {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    return subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, timeout=100)


def expect_help(words, folder, environment):
    """Scripts that need arguments of the reader, or an engine, must at least explain themselves."""
    done = run(words, folder, **environment)
    assert done.returncode == 0 and "usage:" in done.stdout, done.stdout + done.stderr


def try_command(command, folder, scratch):
    """Run what `command` stands for; AssertionError when it fails or no rule covers it."""
    words = shlex.split(command)
    environment = {}
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    if "--scores" in words:
        words[words.index("--scores") + 1] = str(scratch / "scores.json")
    if words[0] == "pytest":
        words = [sys.executable, "-m", *words, "--collect-only", "-q", "-p", "no:cacheprovider"]
        done = run(words, REPO, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
    elif words[0] == "make":
        done = run(["make", "-n", *words[1:]], REPO, **environment)
        assert done.returncode == 0, done.stderr
    elif words[0] == "cd":
        assert folder.is_dir(), folder
    elif words[:2] == ["python", "-m"]:
        own = [folder / f"{words[2]}.py", folder / words[2] / "__main__.py"]
        where = folder if any(file.exists() for file in own) else REPO
        subcommand = [word for word in words[3:4] if re.fullmatch(r"[a-z]+", word)]
        expect_help([sys.executable, *words[1:3], *subcommand, "--help"], where, environment)
    elif words[0] == "torchrun":  # Torch's own launcher; what it starts must be there
        assert (folder / words[words.index("-m") + 1] / "__main__.py").exists(), command
    elif words[0] == "python" and words[1] in QUICK:
        copy = scratch / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__", "captures"))
        for shared in folder.parent.glob("*.py"):
            shutil.copy(shared, scratch)
        environment["PYTHONPATH"] = str(REPO)  # labkit, for a copy that lies elsewhere
        done = run([sys.executable, *words[1:]], copy, **environment)
        begun = environment.get("LAB_IMPL") == "starter"  # may say "yours to write" instead
        assert done.returncode == 0 or begun, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
    elif words[0] == "python" and words[1].endswith(".py"):
        where = folder if (folder / words[1]).exists() else REPO
        expect_help([sys.executable, words[1], "--help"], where, environment)
    elif words[0] == "echo":  # a file that the next command reads
        json.loads(words[1])
    elif words[0].endswith("pip"):  # a group that is there; nothing is downloaded here
        groups = tomllib.loads((REPO / "pyproject.toml").read_text())["dependency-groups"]
        assert "--group" not in words or words[words.index("--group") + 1] in groups, command
    else:
        assert words[0] == "export" or command in SHELL, f"no rule covers {command!r}"


@pytest.mark.parametrize(("command", "folder"), COMMANDS, ids=COMMANDS.values())
def test_a_shown_command_works(command, folder, tmp_path):
    try_command(command, folder, tmp_path)


def test_there_are_commands_to_try():
    assert len(COMMANDS) > 15


@pytest.mark.parametrize(
    "command",
    [
        "pytest lab-77",
        "pytest lab-01 -k nothing",
        "pytest lab-01 --hint nothing",
        "LAB_IMPL=mine pytest lab-01",
        "make no-such-target",
        "python -m labkit.nothing lab-01",
        "python none.py",
        "curl https://example.com",
    ],
)
def test_a_command_that_does_not_work_is_found(command, tmp_path):
    with pytest.raises(AssertionError):
        try_command(command, next(REPO.glob("phase-*/labs/lab-04-*")), tmp_path)
