"""A real scheduler with two workers, one of which is killed at work: nothing is lost."""

import json
import os
import subprocess
import sys
import time

import pytest

from grading.gradebook import Gradebook
from labkit.loading import ROOT
from tests import class_of_20
from tests.test_grading_commands import grading, write

pytest.importorskip("distributed")


@pytest.fixture
def cluster(tmp_path):
    """(address, the two workers' processes)"""
    file = tmp_path / "dask.json"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}

    def start(*words):
        command = [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, cwd=tmp_path, env=environment, **quiet)

    where = ["--scheduler-file", str(file)]
    local = ["--host", "127.0.0.1", "--no-dashboard"]
    running = [start("dask_scheduler", "--port", "0", *local, *where)]
    try:
        for n in range(2):
            one = ["--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path / str(n))]
            running.append(start("dask_worker", *where, *local, *one))
        for _ in range(300):
            if file.exists():
                break
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"], running[1:]
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.isolation
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_killed_workers_hand_ins_are_graded_by_another(tmp_path, cluster):
    address, workers = cluster
    solved = class_of_20.programs()["solved"]
    for n in range(8):
        write(tmp_path / "in", f"s{n}/starter-01.py", data=solved + b"# %d\n" % n)
    out = tmp_path / "grades"
    words = ["run", str(tmp_path / "in"), "--out", str(out), "--dask", address]
    with subprocess.Popen([sys.executable, "-m", "grading", *words], cwd=ROOT) as process:
        while not list(out.glob("lab-01/*.json")) and process.poll() is None:
            time.sleep(0.05)
        workers[0].kill()
    records = Gradebook(out).records()
    points = {row["lab-01"]["labs"][0]["points"]["earned"] for row in records.values()}
    assert process.returncode == 0 and len(records) == 8 and points == {100}


def test_an_address_without_a_scheduler_is_one_sentence(tmp_path):
    write(tmp_path / "in", "ada/starter-01.py")
    done = grading("run", tmp_path / "in", "--out", tmp_path / "g", "--dask", "tcp://127.0.0.1:9")
    assert done.returncode == 2 and "no scheduler answers there" in done.stderr
