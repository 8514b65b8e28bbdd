"""The same run on many machines: a Dask cluster (here), or Slurm (grading.slurm).

A worker needs the course at hand and builds its own sandboxes. The run that asks writes the ledger,
alone; a lost worker's submissions are graded again, and the ledger's key makes a second answer for
the same one harmless. Both engines exchange pickles among trusted processes: Dask over the network
(keep it private, or use its TLS), submitit in a folder. A sandboxed submission reaches neither; a
weakly sandboxed one might, so there is no cluster for those.
"""

import atexit
import importlib.util
import itertools
import os
import re
import shutil
import threading
import time
from dataclasses import asdict

from grading.course import environment, labs_by_prefix, tests_digest
from grading.limits import Limits
from grading.reader import Submission
from grading.run import grade_locally
from grading.station import Station, failure

LOST = 5  # how many workers or jobs one submission may lose before it is held
CONNECT_S = 10
SLURM = ("slurm", "submitit-local")
HERE = ("local", "submitit-local")  # their workers are processes of this machine

_stations = threading.local()
_open = []
_numbers = itertools.count()


class ClusterError(Exception):
    """The cluster cannot be used; str() is one sentence."""


def check(where, slurm: list[str], weak) -> dict[str, str]:
    """Refuse what cannot work, before any work; else what --slurm asks of sbatch."""
    if slurm and where != "slurm":
        raise ClusterError(f"--slurm {slurm[0]} goes with --cluster slurm")
    if where is None:
        return {}
    if not where:
        raise ClusterError("--cluster: give local, slurm, submitit-local or a scheduler's address")
    if weak:
        raise ClusterError(
            f"--cluster {where} needs the whole sandbox: its workers exchange pickles, which a "
            "weakly sandboxed submission could write; leave out --allow-weak-sandbox or --cluster"
        )
    for tool in ("sbatch", "srun", "squeue", "scancel") if where == "slurm" else ():
        if shutil.which(tool) is None:
            raise ClusterError(
                f"--cluster slurm: there is no {tool} on this machine; run this where Slurm jobs "
                "are submitted, or leave out --cluster to grade on this machine"
            )
    package = "submitit" if where in SLURM else "distributed"
    if importlib.util.find_spec(package) is None:
        raise ClusterError(
            f"--cluster {where} needs the package {package}; in the course's folder: "
            ".venv/bin/python -m pip install --group cluster"
        )
    return sbatch_options(slurm)


def sbatch_options(texts: list[str]) -> dict[str, str]:
    """`partition=long,time=30` by name; a value may hold commas itself (`nodelist=a,b`)."""
    found = {}
    for part in (part for text in texts for part in re.split(r",(?=[^,=]+=)", text)):
        name, _, value = part.partition("=")
        name = name.replace("-", "_")  # as submitit spells them
        if not re.fullmatch(r"[a-z][a-z_]*", name) or not value:
            raise ClusterError(
                f"--slurm {part}: give long options of sbatch, such as "
                "partition=long,time=30,cpus-per-task=4"
            )
        found[name] = value
    if not re.fullmatch(r"[1-9]\d{0,3}", found.get("cpus_per_task", "1")):
        raise ClusterError(f"--slurm cpus-per-task={found['cpus_per_task']}: give a whole number")
    return found


def engine(limits, secret, weak, where, out, jobs_at_once, sbatch):
    """What grades a list of jobs: this machine (`where` is None) or a cluster."""
    at_once = jobs_at_once or len(os.sched_getaffinity(0))

    def grade(jobs):
        if where in SLURM:
            from grading.slurm import grade_on_slurm

            count = jobs_at_once if where == "slurm" else at_once
            return grade_on_slurm(jobs, limits, secret, where, out, count, sbatch)
        if where:
            return grade_on_dask(jobs, limits, secret, where, at_once)
        return grade_locally(jobs, limits, secret, weak, at_once)

    return grade


def course_of(prefix):
    """What must be the same on a worker for its grades to count."""
    lab = labs_by_prefix().get(prefix)
    return (tests_digest(lab), environment()) if lab else None


def another_course(prefix):
    return failure(f"this worker has another version of {prefix}'s course")


def grade_here(submission: dict, limits: dict, secret, expected: tuple):
    """On a Dask worker: (result, seconds), from this thread's own station."""
    prefix = submission["lab"]
    if course_of(prefix) != expected:
        return another_course(prefix), 0.0
    setup = (tuple(limits.items()), secret)
    if getattr(_stations, "setup", None) != setup:
        if hasattr(_stations, "station"):
            _stations.station.close()
        _stations.station = Station(Limits(**limits), secret=secret, number=_number())
        _stations.setup = setup
        _open.append(_stations.station)
    started = time.perf_counter()
    result = _stations.station.grade_or_refuse(Submission(**submission), labs_by_prefix()[prefix])
    return result, time.perf_counter() - started


def _number():
    """Another one for each thread (users and control groups are named by it), and if possible for
    each worker of a machine, so that they use different processors."""
    from distributed import get_worker

    last_digits = re.search(r"\d*$", str(get_worker().name))[0]  # worker 0, 1, ...; or its port
    return int(last_digits or 0) + next(_numbers)


@atexit.register
def _close():
    for station in _open:
        station.close()


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
        from grading.cluster import grade_here

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
