"""The same run on many machines: a Dask cluster (here), or Slurm (grading.slurm_engine).

A worker needs the course at hand and builds its own sandboxes. The run that asks writes the
gradebook, alone; a lost worker's submissions are graded again, and the gradebook's key makes a
second answer for the same one harmless. Both engines exchange pickles among trusted processes: Dask
over the network (keep it private, or use its TLS), submitit in a folder. A sandboxed submission
reaches neither; a weakly sandboxed one might, so there is no cluster for those.
"""

import atexit
import itertools
import re
import threading
import time
from dataclasses import asdict

from grading.fingerprint import course_of, labs_by_prefix
from grading.grader import ClusterError, Grader, another_course, failure
from grading.limits import LOST, Limits
from grading.submissions import Submission

CONNECT_S = 10

_graders = threading.local()
_open = []
_numbers = itertools.count()


def grade_here(submission: dict, limits: dict, secret, expected: tuple):
    """On a Dask worker: (result, seconds), from this thread's own grader."""
    prefix = submission["lab"]
    if course_of(prefix) != expected:
        return another_course(prefix), 0.0
    setup = (tuple(limits.items()), secret)
    if getattr(_graders, "setup", None) != setup:
        if hasattr(_graders, "grader"):
            _graders.grader.close()
        _graders.grader = Grader(Limits(**limits), secret=secret, number=_number())
        _graders.setup = setup
        _open.append(_graders.grader)
    started = time.perf_counter()
    result = _graders.grader.grade_or_refuse(Submission(**submission), labs_by_prefix()[prefix])
    return result, time.perf_counter() - started


def _number():
    """Another one for each thread (users and control groups are named by it), and if possible for
    each worker of a machine, so that they use different processors."""
    from distributed import get_worker

    last_digits = re.search(r"\d*$", str(get_worker().name))[0]  # worker 0, 1, ...; or its port
    return int(last_digits or 0) + next(_numbers)


@atexit.register
def _close():
    for grader in _open:
        grader.close()


def grade_on_dask(jobs, limits, secret, address, count):
    """Yield (key, submission, result, seconds) as a Dask cluster finishes them."""
    import dask
    from distributed import Client, LocalCluster, as_completed

    jobs = list(jobs)
    if not jobs:
        return
    expected = {prefix: course_of(prefix) for prefix in {s.lab for _, s in jobs}}

    def there(*arguments):
        # Being local it travels by value: the scheduler, which reads it too, needs no course.
        from grading.dask_engine import grade_here

        return grade_here(*arguments)

    cluster = client = None
    try:
        if address == "local":  # a scheduler of its own reads this number where it was started
            dask.config.set({"distributed.scheduler.allowed-failures": LOST})
            cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None)
        try:
            client = Client(cluster or address, timeout=CONNECT_S)
            client.wait_for_workers(1, timeout=CONNECT_S)
        except (OSError, ValueError) as error:
            what = "this scheduler has no worker" if client else "no Dask scheduler answers there"
            raise ClusterError(
                f"--cluster {address}: {what} ({str(error).splitlines()[0]}); give local, slurm, "
                "submitit-local, or a scheduler's address such as tcp://host:8786, with workers "
                "started by `PYTHONPATH=COURSE dask worker ADDRESS`"
            ) from None
        waiting, futures = {}, []
        for key, submission in jobs:
            future = client.submit(
                there,
                asdict(submission),
                asdict(limits),
                secret,
                expected[submission.lab],
                key=f"grade-{key}",
            )
            waiting[future.key] = (key, submission)
            futures.append(future)
        for future in as_completed(futures):
            key, submission = waiting.pop(future.key)
            if future.status == "finished":
                result, seconds = future.result()
            else:
                why = f"no worker could grade it: {future.exception()}"
                if isinstance(future.exception(), ModuleNotFoundError):
                    why += "; start workers by `PYTHONPATH=COURSE dask worker ADDRESS`"
                result, seconds = failure(why), 0.0
            yield key, submission, result, seconds
            future.release()
    finally:
        if client is not None:
            client.close()
        if cluster is not None:
            cluster.close()
