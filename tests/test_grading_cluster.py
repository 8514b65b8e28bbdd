"""The same grades from a cluster as from one machine, also when workers and jobs are killed."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from grading import dask_engine, engines, slurm
from grading.exports import write_exports
from grading.fingerprint import labs_by_prefix
from grading.gradebook import Gradebook
from grading.limits import Limits
from grading.problem import Problem
from grading.run import grade_locally, grade_missing
from grading.submissions import Submission
from labkit.loading import ROOT
from tests.test_grading_commands import grading

distributed = pytest.importorskip("distributed", reason="the `cluster` group is not installed")
pytest.importorskip("cryptography", reason="the `cluster` group is not installed")
psutil = pytest.importorskip("psutil")  # comes with distributed
pytestmark = pytest.mark.timeout(300)
LAB = labs_by_prefix()["lab-03"]  # one process a submission, and little to compute
LIMITS = Limits(check_s=5)
# Slow, so that a job that is killed after its first result still has some to lose.
SLOW = b"\nimport time\ntime.sleep(0.5)\n"


def submission(name, source):
    return Submission(name, LAB.prefix, f"{name}/starter-03.py", source)


@pytest.fixture(scope="module")
def submissions():
    solution, starter = LAB.file("solution").read_bytes(), LAB.file("starter").read_bytes()
    sources = (solution + SLOW, starter + SLOW, b"import os\nos._exit(0)\n")
    return [submission(f"student-{n:02}", sources[n % 3]) for n in range(12)]


def graded(folder, submissions, engine, held=0):
    """The exports of a run, byte for byte, by their names."""
    with Gradebook(folder, write=True) as gradebook:
        counts = grade_missing(gradebook, submissions, LIMITS, None, False, engine)
        assert counts == (len(submissions) - held, held), gradebook.waiting()
        write_exports(gradebook, folder)
    names = {p.relative_to(folder): p for p in Path(folder).rglob("*") if p.is_file()}
    return {name: p.read_bytes() for name, p in names.items() if "gradebook" not in name.name}


@pytest.fixture(scope="module")
def alone(submissions, tmp_path_factory):
    def engine(jobs):
        return grade_locally(jobs, LIMITS, None, False, 2)

    exports = graded(tmp_path_factory.mktemp("alone"), submissions, engine)
    assert len(exports) > 12
    return exports


def after(number, action, engine):
    """The engine, with an action once that many results are in."""

    def watched(jobs):
        for count, done in enumerate(engine(jobs), 1):
            if count == number:
                action()
            yield done

    return watched


# --- Dask -----------------------------------------------------------------------------------------


@pytest.fixture
def dask(tmp_path):
    """A scheduler and two workers as one would start them by hand, in a folder of their own."""
    file, processes = tmp_path / "scheduler.json", []
    home = tmp_path / "elsewhere"
    home.mkdir()

    def start(kind, *options, **environment):
        command = [sys.executable, "-m", "dask", kind, "--scheduler-file", str(file)]
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        with (home / f"{len(processes)}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [*command, "--no-dashboard", *options],
                    cwd=home,
                    env=clean | environment,
                    stdout=log,
                    stderr=log,
                )
            )

    start("scheduler", "--host", "127.0.0.1", "--port", "0")
    try:
        for threads in ("1", "2"):
            # no nanny, which would start a killed worker anew
            start("worker", "--no-nanny", "--nthreads", threads, PYTHONPATH=str(ROOT))
        for _ in range(300):
            with contextlib.suppress(OSError, ValueError):
                address = json.loads(file.read_text())["address"]
                break
            time.sleep(0.1)
        with distributed.Client(address, timeout=30) as client:
            client.wait_for_workers(2, timeout=30)
        yield address, processes[1:]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


@pytest.mark.isolation
def test_a_killed_dask_worker_changes_nothing(submissions, alone, dask, tmp_path):
    address, workers = dask

    def engine(jobs):
        return dask_engine.grade_on_dask(jobs, LIMITS, None, address, 2)

    assert graded(tmp_path / "out", submissions, after(2, workers[0].kill, engine)) == alone
    assert workers[0].poll() == -signal.SIGKILL and workers[1].poll() is None


@pytest.mark.isolation
def test_workers_of_this_machine_share_its_processors(submissions, alone, tmp_path):
    def engine(jobs):
        return dask_engine.grade_on_dask(jobs, LIMITS, None, "local", 2)

    cells = set()

    def look():
        for process in psutil.Process().children(recursive=True):
            if process.name() == "bwrap":
                cells.add(tuple(process.cpu_affinity()))

    assert graded(tmp_path / "out", submissions, after(len(submissions), look, engine)) == alone
    assert len(cells) == min(2, len(os.sched_getaffinity(0)))


def test_a_worker_with_another_course_is_held_not_scored():
    one = submission("ada", LAB.file("solution").read_bytes())
    result, _ = dask_engine.grade_here(asdict(one), asdict(LIMITS), None, ("other", {}))
    assert result["status"] == "infrastructure" and "another version" in result["problem"]


def test_nothing_to_do_starts_nothing(tmp_path):
    before = threading.active_count()
    started = time.perf_counter()
    assert list(dask_engine.grade_on_dask([], LIMITS, None, "local", 2)) == []
    assert list(through_slurm(tmp_path)([])) == [] and not list(tmp_path.iterdir())
    assert threading.active_count() == before and time.perf_counter() - started < 5


# --- Slurm: what a run asks of it, answered without one -------------------------------------------

STAND_INS = {  # jobs are processes, listed in a file
    "sbatch": """
        if grep -q partition=nope "$2"; then
          echo "sbatch: error: invalid partition specified: nope" >&2; exit 1
        fi
        log=$(sed -n 's/^#SBATCH --output=//p' "$2")
        cat "$2" >> "$BOOK.scripts"
        SLURM_JOB_ID=$$ setsid bash "$2" > "${log//%j/$$}" 2>&1 < /dev/null &
        echo "$! $$" >> "$BOOK"
        echo "$$;main"
    """,
    "squeue": """
        while read pid id; do kill -0 "$pid" 2> /dev/null && echo "$id"; done < "$BOOK"; true
    """,
    "scancel": """
        while read pid id; do [[ " $* " == *" $id "* ]] && kill -9 "$pid"; done < "$BOOK"; true
    """,
}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A folder with commands named as Slurm's on the PATH, and the book that they keep."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}")
        (folder / name).chmod(0o755)
    book = tmp_path / "book"
    book.touch()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("BOOK", str(book))
    monkeypatch.setattr(slurm, "SQUEUE_S", 0.5)
    yield book
    for line in book.read_text().splitlines():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)


def through_slurm(out, count=None, **options):
    def engine(jobs):
        return dask_engine.grade_on_dask(jobs, LIMITS, None, "slurm", count, out, options)

    return engine


def jobs_of(book):
    return [psutil.Process(int(line.split()[0])) for line in book.read_text().splitlines()]


@pytest.mark.isolation
def test_a_job_that_slurm_no_longer_has_is_submitted_again(
    submissions, alone, stand_in, monkeypatch, tmp_path
):
    monkeypatch.setattr(slurm, "BATCH", 6)
    out = tmp_path / "out"
    assert engines.check("slurm", ["partition=main"], False) == {"partition": "main"}
    options = {"partition": "main", "time": "30", "cpus_per_task": "2"}

    def kill():
        for job in jobs_of(stand_in):  # all there are: none is left to take their place
            job.kill()

    engine = after(2, kill, through_slurm(out, **options))
    assert graded(out, submissions, engine) == alone
    assert len(jobs_of_all := stand_in.read_text().splitlines()) >= 3, jobs_of_all
    script = Path(f"{stand_in}.scripts").read_text()
    assert {"--partition=main", "--time=30", "--mem=4096M", "--cpus-per-task=2"} <= {
        line.removeprefix("#SBATCH ") for line in script.splitlines()
    }
    assert not list(out.glob(".*"))  # the keys are gone
    assert not [job for job in psutil.pids() if str(job) in jobs_of_all]


def test_jobs_that_never_start_grading_end_the_run_and_say_why(stand_in, monkeypatch, tmp_path):
    monkeypatch.setattr(slurm, "LOST", 2)
    monkeypatch.setattr(slurm.sys, "executable", "/nowhere/python")
    with pytest.raises(Problem, match="2 Slurm jobs ended .* /nowhere/python: No such file"):
        list(through_slurm(tmp_path)([("key", submission("ada", b""))]))
    assert not list(tmp_path.glob(".*"))


def test_what_slurm_refuses_is_one_sentence(stand_in, tmp_path):
    engine = through_slurm(tmp_path, partition="nope")
    with pytest.raises(Problem, match="Slurm refused the jobs: .*partition") as raised:
        list(engine([("key", submission("ada", b""))]))
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.isolation
def test_the_jobs_of_a_killed_run_end_and_the_next_run_has_its_grades(stand_in, tmp_path):
    for name in ("ada", "bo", "cy", "di"):
        (tmp_path / "in" / name).mkdir(parents=True)
        source = LAB.file("solution").read_bytes() + SLOW
        (tmp_path / "in" / name / "starter-03.py").write_bytes(source)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "grading", "run", str(tmp_path / "in"), "--out", str(out)]
    log = (tmp_path / "log").open("wb")
    run = subprocess.Popen([*command, "--cluster", "slurm"], cwd=ROOT, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and run.poll() is None:
        with contextlib.suppress(Exception), Gradebook(out) as gradebook:
            if gradebook.keys():
                break
        time.sleep(0.1)
    jobs = jobs_of(stand_in)
    run.kill()
    run.wait()
    # a worker first ends what it is at
    assert jobs and not psutil.wait_procs(jobs, timeout=100)[1]
    status, text = grading(*command[3:], "--jobs", "2")
    assert status == 0 and "0 graded in" not in text and "were graded before" in text
    assert not text.count(" 0 were graded before")


def test_nobody_without_the_runs_certificate_reaches_its_scheduler(stand_in, tmp_path):
    with slurm.SlurmWorkers(1, 1, LIMITS, tmp_path, {}) as workers:
        script = workers.script.read_text()
        assert "--mem=2048M\n" in script and "--cpus-per-task=1\n" in script
        address = workers.cluster.scheduler_address
        for where in (address, address.replace("tls://", "tcp://")):
            joining = distributed.comm.connect(where, timeout=3)
            with pytest.raises((OSError, TypeError)), ThreadPoolExecutor(1) as own_thread:
                # beside the loop that a browser's tests leave running in this one
                own_thread.submit(asyncio.run, joining).result()
        keys = list(tmp_path.glob(f"{slurm.FOLDER}*"))
        assert len(keys) == 1 and keys[0].stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob(".*"))


SPY = """
import os
found = [os.path.join(top, f) for top, _, files in os.walk(OUT) for f in files]
found += [os.path.join(top, f) for top, _, files in os.walk("/tmp") for f in files
          if f.endswith(".pem")]
found += [name for name in os.environ if "DASK" in name or "SLURM" in name]
for number in range(3, 64):
    try:
        found.append(os.readlink(f"/proc/self/fd/{number}"))
    except OSError:
        pass
for folder in [OUT, *{os.path.dirname(path) for path in found}]:
    try:
        open(os.path.join(folder, "was-here"), "w").close()
        found.append("wrote to " + folder)
    except OSError:
        pass
print("SEEN", [path for path in found if "job" in path or OUT in path or "SLURM" in path])
"""


@pytest.mark.isolation
def test_a_submission_cannot_reach_the_jobs_folder(stand_in, tmp_path):
    out = tmp_path / "out"
    spy = f"OUT = {str(out)!r}" + SPY
    source = LAB.file("solution").read_bytes() + SLOW
    two = [submission("spy", source + spy.encode()), submission("zoe", source)]
    seen_outside = []

    def look():  # the same eyes, unsandboxed
        command = [sys.executable, "-c", spy]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        seen_outside.append(done.stdout)
        assert (out / "was-here").exists()
        (out / "was-here").unlink()

    graded(out, two, after(1, look, through_slurm(out, 1)))
    assert "key.pem" in seen_outside[0] and "wrote to" in seen_outside[0]
    with Gradebook(out) as gradebook:
        printed = next(r for r in gradebook.records() if r["student"] == "spy")["printed"]
    assert "SEEN []" in printed
    assert not (out / "was-here").exists()


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "options", "weak", "words"),
    [
        ("slurm", [], True, "leave out --allow-weak-sandbox or --cluster"),
        ("tcp://127.0.0.1:8786", [], True, "leave out --allow-weak-sandbox or --cluster"),
        (None, ["time=30"], False, "--slurm time=30 goes with --cluster slurm"),
        ("local", ["time=30"], False, "goes with --cluster slurm"),
        ("", [], False, "give local, slurm or a scheduler's address"),
        ("slurm", [], False, "there is no sbatch on this machine"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(where, options, weak, words, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Problem, match=words.replace("--", "-{2}")) as raised:
        engines.check(where, options, weak)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("where", "package"), [("local", "cryptography"), ("tcp://x:1", "distributed")]
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(where, package, monkeypatch):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: name != package or None)
    with pytest.raises(Problem, match=f"{package}; .*pip install --group cluster"):
        engines.check(where, [], False)


def test_slurm_options_are_sbatchs_own():
    options = engines.sbatch_options(["partition=a,b,time=1:00:00", "cpus-per-task=4"])
    assert options == {"partition": "a,b", "time": "1:00:00", "cpus_per_task": "4"}


@pytest.mark.parametrize("text", ["partition", "=x", "time=", "--x y=1", "cpus-per-task=two", ""])
def test_slurm_options_that_are_none_are_refused(text):
    with pytest.raises(Problem, match="--slurm"):
        engines.sbatch_options([text])


def test_no_scheduler_there_is_one_sentence(monkeypatch):
    monkeypatch.setattr(dask_engine, "CONNECT_S", 1)
    with socket.socket() as deaf:  # bound, so nobody else's, but not listening
        deaf.bind(("127.0.0.1", 0))
        where = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(Problem, match="no Dask scheduler answers") as raised:
            list(
                dask_engine.grade_on_dask([("key", submission("ada", b""))], LIMITS, None, where, 2)
            )
    assert "\n" not in str(raised.value)


def test_a_refusal_is_what_the_command_says(tmp_path):
    arguments = ("run", tmp_path, "--out", tmp_path / "out", "--cluster", "local")
    status, text = grading(*arguments, "--allow-weak-sandbox")
    assert status == 2 and text.startswith("grading: --cluster local needs the whole sandbox")
