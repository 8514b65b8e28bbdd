"""`python -m pytest` in a copy of the course, by forks of a process that has imported pytest."""

import multiprocessing
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN = {str(HERE), str(HERE.parent)}


def start(folder, arguments, environment, out):
    """The process of one run, whose exit code is pytest's; `out` is the file that it prints to."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["numpy", "pytest"])
    words = (str(folder), [*map(str, arguments)], environment, str(out))
    process = forks.Process(target=_become, args=words)
    process.start()
    return process


def _become(folder, arguments, environment, out):
    screen = os.open(out, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(screen, stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("labkit", "tests")]:
        del sys.modules[name]  # of this checkout: the copy has its own
    course = str(HERE.parent) + os.sep
    others = [path for path in sys.path if path not in OWN and not path.startswith(course)]
    own = [path for path in sys.path if path.startswith(course) and "site-packages" in path]
    sys.path[:] = [folder, *others, *own, str(HERE.parent)]  # last, as an environment has it
    import pytest

    sys.argv = ["pytest", *arguments]
    sys.exit(pytest.console_main())
