"""The same run on many machines: Dask's workers, started by hand or as Slurm jobs.

A worker needs the course at hand and builds its own sandboxes. The run that asks writes the
gradebook, alone; a lost worker's submissions are graded again, and the gradebook's key makes a
second answer for the same one harmless. Workers and scheduler exchange pickles among trusted
processes: keep the network private, or use Dask's TLS, as the Slurm jobs do. A sandboxed submission
reaches neither; a weakly sandboxed one might, so there is no cluster for those.
"""

import atexit
import contextlib
import itertools
import os
import queue
import re
import threading
import time
from dataclasses import asdict

from grading.fingerprint import course_of, labs_by_prefix
from grading.grader import Grader, another_course, failure
from grading.limits import LOST, Limits
from grading.problem import Problem
from grading.submissions import Submission

CONNECT_S = 10
POLL_S = 0.5
RESULT_S = 5

_graders = threading.local()
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
        atexit.register(_graders.grader.close)
    started = time.perf_counter()
    result = _graders.grader.grade_or_refuse(Submission(**submission), labs_by_prefix()[prefix])
    return result, time.perf_counter() - started


def _number():
    """Another one for each thread (users and control groups are named by it), and if possible for
    each worker of a machine, so that they use different processors."""
    from distributed import get_worker

    last_digits = re.search(r"\d*$", str(get_worker().name))[0]  # worker 0, 1, ...; or its port
    return int(last_digits or 0) + next(_numbers)


def grade_on_dask(jobs, limits, secret, address, count, out=None, options=None):
    """Yield (key, submission, result, seconds) as a Dask cluster finishes them.

    `address`: a scheduler's, "local" or "slurm", whose jobs' files go below `out` and whose sbatch
    takes `options`. `count`: how many at a time, by default this machine's processors, on Slurm a
    job per fifty submissions.
    """
    waiting = {f"grade-{key}": (key, submission) for key, submission in jobs}
    if not waiting:
        return
    expected = {prefix: course_of(prefix) for prefix in {s.lab for _, s in waiting.values()}}

    def there(*arguments):
        # Being local it travels by value: the scheduler, which reads it too, needs no course.
        from grading.dask_engine import grade_here

        return grade_here(*arguments)

    with contextlib.ExitStack() as stack:
        client, slurm = _connect(stack, address, count, len(waiting), limits, out, options or {})
        finished, futures = queue.SimpleQueue(), []
        for name, (_, submission) in waiting.items():
            arguments = asdict(submission), asdict(limits), secret, expected[submission.lab]
            futures.append(client.submit(there, *arguments, key=name))
            futures[-1].add_done_callback(finished.put)
        while waiting:
            if slurm:
                slurm.look(progress=len(waiting))
            try:
                future = finished.get(timeout=POLL_S)
            except queue.Empty:
                continue
            try:
                result, seconds = future.result(timeout=RESULT_S)
            except TimeoutError:  # lost with its worker: it is graded again
                finished.put(future)
                continue
            except Exception as error:
                why = f"no worker could grade it: {error}"
                if isinstance(error, ModuleNotFoundError):
                    why += "; start workers by `PYTHONPATH=COURSE dask worker ADDRESS`"
                result, seconds = failure(why), 0.0
            yield *waiting.pop(future.key), result, seconds
            future.release()


def _connect(stack, address, count, number, limits, out, options):
    """(client, the Slurm jobs or None) of a cluster that ends with `stack`."""
    import dask
    from distributed import Client, LocalCluster

    # A scheduler of this process reads these; else both belong to where it was started.
    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": LOST,
            "distributed.scheduler.worker-saturation": 1.0,  # a lost worker's queue is not at fault
        }
    )
    cluster, slurm = address, None
    if address == "local":
        count = count or len(os.sched_getaffinity(0))
        here = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        cluster = stack.enter_context(LocalCluster(n_workers=count, **here))
    elif address == "slurm":
        from grading.slurm import SlurmWorkers

        slurm = stack.enter_context(SlurmWorkers(count, number, limits, out, options))
        cluster = slurm.cluster
    client = None
    try:
        client = stack.enter_context(Client(cluster, timeout=CONNECT_S))
        if not slurm:  # whose jobs may wait for hours
            client.wait_for_workers(1, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        what = "this scheduler has no worker" if client else "no Dask scheduler answers there"
        raise Problem(
            f"--cluster {address}: {what} ({str(error).splitlines()[0]}); give local, slurm, or a "
            "scheduler's address such as tcp://host:8786, with workers started by "
            "`PYTHONPATH=COURSE dask worker ADDRESS`"
        ) from None
    return client, slurm
