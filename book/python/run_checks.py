"""Grade one starter.py in a page: the pytest, the labkit and the test_lab.py of the terminal."""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

OPTIONS = "--open-tasks-ok --capture=sys -p no:cacheprovider -p no:faulthandler".split()


class InThePage:
    """What pytest-timeout declares and says, without its signals, which a page does not have.

    A loop of the learner's file sees its time at each round. tell(what, text) is called when a
    check begins, with what it claims: the page ends what does not end by this.
    """

    def __init__(self, tell):
        self.tell, self.limit_s, self.ends_s = tell, 0.0, 0.0

    def pytest_addoption(self, parser):
        parser.addini("timeout", "as in pytest-timeout; the page holds the time itself")

    def pytest_configure(self, config):
        config.addinivalue_line("markers", "timeout(s): as in pytest-timeout")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        marker = item.get_closest_marker("timeout")
        self.limit_s = float(marker.args[0]) if marker else float("inf")
        self.ends_s = time.monotonic() + self.limit_s
        self.tell("check", (item.function.__doc__ or item.name).split("\n")[0])

    def round(self, code, place, target):
        if not code.co_filename.endswith("starter.py"):
            return sys.monitoring.DISABLE
        if time.monotonic() > self.ends_s:
            self.ends_s = time.monotonic() + 1  # for what is asked afterwards, such as a hint
            raise pytest.fail.Exception(f"Timeout (>{self.limit_s}s) from pytest-timeout.")

    @contextlib.contextmanager
    def watching(self):
        tool, jump = sys.monitoring.PROFILER_ID, sys.monitoring.events.JUMP
        sys.monitoring.use_tool_id(tool, "time limit")
        sys.monitoring.register_callback(tool, jump, self.round)
        sys.monitoring.set_events(tool, jump)
        try:
            yield
        finally:
            sys.monitoring.set_events(tool, 0)
            sys.monitoring.free_tool_id(tool)


def run(course, lab, starter, text, task, tell):
    """Grade `text` as the lab's starter.py; task 0 is all of them.

    course: the folder of the repository. starter: the file's path in it. Returns JSON:
    {"entry": the lab's entry of labkit.scoreboard or null, "screen": what pytest printed}.
    """
    tell("say", "The checks are running.")
    os.chdir(course)
    os.environ.update(LAB_IMPL="starter", COLUMNS="80", NO_COLOR="1", PYTHON_COLORS="0")
    Path(starter).write_text(text, encoding="utf-8")
    scores, screen = Path(tempfile.gettempdir()) / "scores.json", io.StringIO()
    scores.unlink(missing_ok=True)
    options = [lab, *OPTIONS, f"--scores={scores}"]
    options += [f"--task={task}"] if task else []
    page = InThePage(tell)
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen), page.watching():
        pytest.main(options, plugins=[page])
    from labkit.claims import THE_CALL, THE_LIMIT  # of the course, which pytest has found

    told = scores.read_text(encoding="utf-8") if scores.exists() else ""
    told = told.replace(THE_CALL, "").replace(THE_LIMIT, "")  # nobody types anything here
    entries = json.loads(told)["labs"] if told else []
    return json.dumps({"entry": entries[0] if entries else None, "screen": screen.getvalue()})
