"""The same grades from a cluster as from one machine, also when a worker is killed on the way."""

import os
import signal
import threading
import time

import pytest

from grading.course import labs_by_prefix
from grading.ledger import Ledger
from grading.limits import Limits
from grading.reader import Submission
from grading.run import grade_locally, run
from tests.test_grading_corpus import isolation

distributed = pytest.importorskip("distributed", reason="the `cluster` group is not installed")
pytestmark = pytest.mark.skipif(
    not isolation and not os.environ.get("CI"),
    reason="this machine cannot isolate a submission: python -m grading doctor",
)
LAB = labs_by_prefix()["lab-01"]
LIMITS = Limits(check_s=5)


def submissions():
    solution, starter = LAB.file("solution").read_bytes(), LAB.file("starter").read_bytes()
    for n in range(12):
        source = (solution, starter, b"import os\nos._exit(0)\n")[n % 3]
        yield Submission(f"student-{n:02}", "lab-01", f"student-{n:02}/starter-01.py", source)


def records(folder, engine):
    with Ledger(folder, write=True) as ledger:
        done = []
        graded, held = run(
            ledger, submissions(), LIMITS, None, False, engine, lambda *one: done.append(one)
        )
        assert (graded, held) == (12, 0), [result["problem"] for _, result in done]
        return ledger.records()


@pytest.mark.timeout(240)
def test_a_killed_worker_changes_nothing(tmp_path):
    from grading.cluster import grade_on_cluster

    alone = records(tmp_path / "alone", lambda jobs: grade_locally(jobs, LIMITS, None, False, 2))
    killed = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        victim = next(iter(cluster.workers.values())).pid

        def engine(jobs):
            for count, done in enumerate(
                grade_on_cluster(jobs, LIMITS, None, False, cluster.scheduler_address, 2)
            ):
                if count == 2:
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)
                yield done

        together = records(tmp_path / "together", engine)
    assert killed
    assert together == alone


def test_a_worker_with_another_course_is_held_not_scored():
    from dataclasses import asdict

    from grading.cluster import grade_here

    submission = next(submissions())
    result, _ = grade_here(asdict(submission), asdict(LIMITS), None, False, ("other", {}))
    assert result["status"] == "infrastructure" and "another version" in result["problem"]


def test_nothing_to_do_starts_nothing():
    from grading.cluster import grade_on_cluster

    before = threading.active_count()
    started = time.perf_counter()
    assert list(grade_on_cluster([], LIMITS, None, False, "local", 2)) == []
    assert threading.active_count() == before and time.perf_counter() - started < 5
