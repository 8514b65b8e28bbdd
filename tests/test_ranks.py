"""Starting one process per rank: what failed is told in a sentence, and nothing is left.

The same of ranks that are forks of a process that has imported what they need.
"""

import functools
import os
import signal
import subprocess
import sys
import time

import pytest

from labkit.nursery import Nursery
from labkit.ranks import RanksFailed, run_processes
from tests.conftest import ROOT

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="not run here: Linux only")
PROGRAM = "import sys\n\ndef main():\n    exec(sys.argv[1], {})\n"


def python(code):
    return [sys.executable, "-c", code]


@pytest.fixture(params=["processes", pytest.param("forks", marks=ON_LINUX)])
def run(request, tmp_path):
    """run_processes, of processes of their own or of forks."""
    if request.param == "processes":
        yield run_processes
        return
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with Nursery(sys.executable, program, tmp_path / "import.log", dict(os.environ)) as nursery:
        yield functools.partial(run_processes, start=nursery.start)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as stat:  # a zombie is dead; its parent has not looked yet
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition, limit_s=20):
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_all_ranks_run_at_once_and_their_output_is_kept(run, tmp_path):
    meet = "import pathlib, time\nme, you = {!r}, {!r}\npathlib.Path(me).touch()\n"
    meet += "while not pathlib.Path(you).exists(): time.sleep(0.01)\nprint('met', flush=True)"
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    run([python(meet.format(a, b)), python(meet.format(b, a))], tmp_path, timeout_s=30)
    assert [(tmp_path / f"rank-{r}.log").read_text() for r in (0, 1)] == ["met\n", "met\n"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('rank 1: no such model'); raise SystemExit(3)", "rank 1: no such model"),
        ("print('some noise'); raise SystemExit(3)", "rank 1: ended with status 3: some noise"),
        ("import os; os.kill(os.getpid(), 11)", "rank 1: died of signal 11 (SIGSEGV)"),
        ("import os; os._exit(2)", "rank 1: ended with status 2: no message"),
    ],
)
def test_a_failed_rank_is_one_sentence_and_the_others_are_stopped(run, tmp_path, code, said):
    sleeper = python("import time; time.sleep(100)")
    with pytest.raises(RanksFailed) as failure:
        run([sleeper, python(code)], tmp_path, timeout_s=60, grace_s=0.1)
    assert said in str(failure.value).splitlines()
    assert "rank 0: did not end by itself and was stopped" in str(failure.value)


def test_a_time_limit_ends_all(run, tmp_path):
    started, pids = time.monotonic(), []
    with pytest.raises(RanksFailed, match="rank 1: did not end"):
        run(
            [python("import time; time.sleep(100)")] * 2,
            tmp_path,
            timeout_s=0.5,
            on_start=lambda ranks: pids.extend(rank.pid for rank in ranks),
        )
    assert time.monotonic() - started < 30
    assert not any(map(is_alive, pids))


def test_a_ranks_own_children_end_with_it(run, tmp_path):
    code = "import subprocess, sys\n"
    code += f"p = subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(100)'])\n"
    code += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))"
    run([python(code)], tmp_path, timeout_s=30)
    child = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not is_alive(child))


FORKED = """
import os
from labkit.nursery import Nursery
start = Nursery(sys.executable, {program!r}, {log!r}, dict(os.environ)).start
"""


@ON_LINUX
@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_rank_outlives_its_launcher(tmp_path, how, forked):
    rank = (
        f"import os, time; open({str(tmp_path)!r} + f'/pid-{{os.getpid()}}', 'w'); time.sleep(100)"
    )
    code = "from labkit.ranks import run_processes\nimport signal, sys\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & ignores it
    code += f"c = [sys.executable, '-c', {rank!r}]\nstart = None\n"
    if forked:
        (tmp_path / "program.py").write_text(PROGRAM)
        code += FORKED.format(program=str(tmp_path / "program.py"), log=str(tmp_path / "log"))
    code += f"run_processes([c, c], {str(tmp_path)!r}, timeout_s=90, start=start)"
    launcher = subprocess.Popen(
        python(code),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    assert wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
    launcher.send_signal(how)
    launcher.wait(30)
    pids = [int(path.name[4:]) for path in tmp_path.glob("pid-*")]
    assert wait_until(lambda: not any(map(is_alive, pids)))


@ON_LINUX
def test_a_program_that_cannot_be_imported_is_one_sentence(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import no_such_engine")
    with Nursery(sys.executable, program, tmp_path / "import.log", dict(os.environ)) as nursery:
        with pytest.raises(RanksFailed, match="^rank 0: could not be started: .*no_such_engine"):
            run_processes([python("")], tmp_path, timeout_s=20, start=nursery.start)
