"""Draw a figure of the book in a page, by the reader's own functions of one lab."""

import importlib
import json
import os
import sys
import time
import types
from pathlib import Path

import pytest
from run_checks import InThePage


def run(course, lab, starter, text, figure, tell):
    """figure: `pipeline.straggler()`, a call of a module of book/figures; text: of `lab`'s starter.

    Returns JSON: {"html": the figure} or {"message": what a check says of such an exception}.
    """
    tell("say", "Your code is asked.")
    os.chdir(course)
    os.environ.update(LAB_IMPL="solution")  # of the other labs
    Path(starter).write_text(text, encoding="utf-8")
    labs = Path(starter).resolve().parent.parent
    places = (course, f"{course}/book", str(labs), str(labs / "capstone"))
    sys.path += [place for place in places if place not in sys.path]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("figures", "labbook")]:
        del sys.modules[name]  # they keep what they found
    sys.modules["figures"] = types.ModuleType("figures")  # whose __init__ asks for numpy
    sys.modules["figures"].__path__ = [f"{course}/book/figures"]
    return json.dumps(_drawn(lab, Path(starter).resolve(), figure, tell))


def _drawn(prefix, path, figure, tell):
    from labbook import labs

    from labkit.claims import outcome_of
    from labkit.loading import Implementation, load_module
    from labkit.plugin import CHECK_S, recorder_of
    from labkit.recorder import Recorder

    mine, by_book, page = Recorder(None), labs.solution, InThePage(tell)
    page.limit_s, page.ends_s = float(CHECK_S), time.monotonic() + CHECK_S
    tell("check", figure)
    try:
        with page.watching():
            mine = recorder_of(labs.lab(prefix), Implementation(load_module(path), path))
            labs.solution = lambda name: mine if name == prefix else by_book(name)
            module, _, call = figure.partition(".")
            return {"html": eval(call, vars(importlib.import_module(f"figures.{module}")))}
    except (Exception, pytest.fail.Exception):
        report = types.SimpleNamespace(passed=False, skipped=False)
        found = pytest.ExceptionInfo.from_current()
        said = outcome_of(report, found, path, mine)
        here = " Written in a terminal? “Open starter.py”, under the lab’s tasks, brings it here."
        return {"message": said["message"] + here * (said["outcome"] == "todo")}
