"""Grade on the workers of a Dask scheduler that somebody else runs, named by its address."""

import tempfile
import time
from pathlib import Path

from distributed import Client, as_completed

from grading.cell import NoCell
from grading.grade import grade
from grading.gradebook import course_digest
from grading.text import Problem


def grade_all(address, jobs, secret):
    """Yield (n, entry or exception, seconds) of each (source, lab) of `jobs` when it is done.

    What a lost worker was at is graded by another one.
    """
    try:
        client = Client(address, timeout=20, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise Problem(f"--dask {address}: no scheduler answers there ({error})") from None
    with client:
        digests = {lab: course_digest(lab) for lab in {lab for _, lab in jobs}}
        running = {
            client.submit(_grade, source, lab, secret, digests[lab], pure=False): n
            for n, (source, lab) in enumerate(jobs)
        }
        for future in as_completed(running, loop=client.loop):
            try:
                entry, seconds = future.result()
            except NoCell as error:
                raise Problem(f"a worker: {error}") from None
            except Exception as error:
                entry, seconds = error, 0.0
            yield running[future], entry, seconds


def _grade(source, lab, secret, digest):
    """On a worker: (the entry, seconds), if its course is the same as ours."""
    if course_digest(lab) != digest:
        raise NoCell("its course, Python, numpy or pytest differs from this one's")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "starter.py")
        path.write_bytes(source)
        return grade(path, lab, secret=secret), time.monotonic() - started
