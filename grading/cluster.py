"""The same run on many machines: each submission is one Dask task, named by its ledger key.

A worker needs the course at hand (PYTHONPATH=COURSE dask worker ADDRESS) and builds its own
sandboxes. What travels is bytes, strings and numbers. Dask runs a lost worker's tasks again on
another one; the ledger's key makes a second answer for the same submission harmless. Dask's own
protocol must be kept among trusted machines (its TLS, or a private network).
"""

import atexit
import threading
import time
from dataclasses import asdict

from grading.course import environment, labs_by_prefix, tests_digest
from grading.limits import Limits
from grading.reader import Submission
from grading.station import Station, failure

LOST_WORKERS = 5  # how many workers one submission may lose before it is held

_stations = threading.local()
_open = []


def grade_here(submission: dict, limits: dict, secret, weak: bool, expected: tuple):
    """On a worker: (result, seconds), from this thread's own station."""
    lab = labs_by_prefix().get(submission["lab"])
    found = (tests_digest(lab), environment()) if lab else None
    if found != expected:
        return failure(f"this worker has another version of {submission['lab']}'s course"), 0.0
    setup = (tuple(limits.items()), secret, weak)
    if getattr(_stations, "setup", None) != setup:
        if hasattr(_stations, "station"):
            _stations.station.close()
        number = len(_open)
        _stations.station = Station(Limits(**limits), weak, secret, number)
        _stations.setup = setup
        _open.append(_stations.station)
    started = time.perf_counter()
    result = _stations.station.grade_or_refuse(Submission(**submission), lab)
    return result, time.perf_counter() - started


@atexit.register
def _close():
    for station in _open:
        station.close()


def grade_on_cluster(jobs, limits, secret, weak, address, count):
    """Yield (key, submission, result, seconds) as a Dask cluster finishes them."""
    import dask
    from distributed import Client, LocalCluster, as_completed

    jobs = list(jobs)
    if not jobs:
        return
    dask.config.set({"distributed.scheduler.allowed-failures": LOST_WORKERS})
    labs = labs_by_prefix()
    around = environment()
    expected = {prefix: (tests_digest(labs[prefix]), around) for prefix in labs}
    cluster = None
    if address == "local":
        cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None)
    try:
        with Client(cluster or address, timeout=30) as client:
            waiting, futures = {}, []
            for key, submission in jobs:
                future = client.submit(
                    grade_here,
                    asdict(submission),
                    asdict(limits),
                    secret,
                    weak,
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
                    result, seconds = failure(f"the cluster lost it: {future.exception()}"), 0.0
                yield key, submission, result, seconds
                future.release()
    finally:
        if cluster is not None:
            cluster.close()
