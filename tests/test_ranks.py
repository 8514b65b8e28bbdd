"""Starting one process per rank: what failed is told in a sentence, and nothing is left."""

import os
import signal
import subprocess
import sys
import time

import pytest

from labkit.ranks import RanksFailed, run_processes
from tests.conftest import ROOT

SLEEP = ["import time; time.sleep(100)"]


@pytest.fixture
def program(tmp_path):
    """A program of which each rank does what its own word says."""
    path = tmp_path / "program.py"
    path.write_text(
        "import os, sys\nIMPORTED_BY = os.getpid()\ndef main():\n    exec(sys.argv[1])\n"
    )
    return path


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:  # a zombie is dead; its parent has not looked yet
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the two
        return False


def wait_until(condition, limit_s=20):
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_ranks_run_at_once_by_one_import_with_environment_and_log_of_their_own(program, tmp_path):
    meet = "import pathlib, time; pathlib.Path({!r}).touch()\n"
    meet += "while not pathlib.Path({!r}).exists(): time.sleep(0.01)\n"
    meet += "print(os.environ['WHO'], IMPORTED_BY, os.environ.get('HOME'), flush=True)"
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    environments = [{"WHO": who, "PATH": os.environ["PATH"]} for who in ("me", "you")]
    words, pids = [[meet.format(a, b)], [meet.format(b, a)]], []
    options = {"environments": environments, "on_start": pids.extend}
    run_processes(program, words, tmp_path, timeout_s=30, **options)
    mine, yours = ((tmp_path / f"rank-{r}.log").read_text().split() for r in (0, 1))
    assert (mine[0], yours[0], mine[2], yours[2]) == ("me", "you", "None", "None")
    assert mine[1] == yours[1] and len({int(mine[1]), os.getpid(), *pids}) == 4


def test_what_one_rank_prints_can_go_to_the_screen(program, tmp_path, capfd):
    words = [["print('seen', flush=True)"], ["print('kept', flush=True)"]]
    run_processes(program, words, tmp_path, timeout_s=30, echo=0)
    assert capfd.readouterr().out == "seen\n"
    assert (tmp_path / "rank-1.log").read_text() == "kept\n"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('rank 1: no such model'); raise SystemExit(3)", "rank 1: no such model"),
        ("print('some noise'); raise SystemExit(3)", "rank 1: ended with status 3: some noise"),
        ("raise ValueError('broke')", "rank 1: ended with status 1: ValueError: broke"),
        ("os.kill(os.getpid(), 11)", "rank 1: died of signal 11 (SIGSEGV)"),
        ("os._exit(2)", "rank 1: ended with status 2: no message"),
    ],
)
def test_a_failed_rank_is_one_sentence_and_the_others_are_stopped(program, tmp_path, code, said):
    with pytest.raises(RanksFailed) as failure:
        run_processes(program, [SLEEP, [code]], tmp_path, timeout_s=60, grace_s=0.1)
    stopped = "rank 0: did not end by itself and was stopped"
    assert str(failure.value).splitlines() == [stopped, said]


def test_a_time_limit_ends_all(program, tmp_path):
    started, pids = time.monotonic(), []
    with pytest.raises(RanksFailed, match="rank 1: did not end"):
        run_processes(program, [SLEEP] * 2, tmp_path, timeout_s=0.5, on_start=pids.extend)
    assert time.monotonic() - started < 30
    assert len(pids) == 2 and not any(map(is_alive, pids))


def test_a_ranks_own_children_end_with_it(program, tmp_path):
    code = "import subprocess\n"
    code += f"p = subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(100)'])\n"
    code += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))"
    run_processes(program, [[code]], tmp_path, timeout_s=30)
    child = int((tmp_path / "pid").read_text())
    assert wait_until(lambda: not is_alive(child))


@pytest.mark.skipif(sys.platform != "linux", reason="not run here: Linux only")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_rank_outlives_its_launcher(program, tmp_path, how):
    rank = f"import time; open({str(tmp_path)!r} + f'/pid-{{os.getpid()}}', 'w'); time.sleep(100)"
    code = "from labkit.ranks import run_processes\nimport signal\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & ignores it
    code += f"run_processes({str(program)!r}, [[{rank!r}]] * 2, {str(tmp_path)!r}, timeout_s=90)"
    caller = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    assert wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2)
    caller.send_signal(how)
    caller.wait(30)
    pids = [int(path.name[4:]) for path in tmp_path.glob("pid-*")]
    assert wait_until(lambda: not any(map(is_alive, pids)))


def test_a_program_that_cannot_be_imported_is_one_sentence(program, tmp_path):
    program.write_text("import no_such_engine")
    with pytest.raises(RanksFailed, match="^rank 0: could not be started: .*no_such_engine"):
        run_processes(program, [[""]], tmp_path, timeout_s=20)
