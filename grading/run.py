"""Grade what a gradebook does not hold yet, on this machine's cores or on a cluster's."""

import contextlib
import hashlib
import itertools
import queue
import time
from dataclasses import asdict
from multiprocessing.pool import ThreadPool

from grading.fingerprint import environment, labs_by_prefix, tests_digest
from grading.gradebook import Gradebook, key_of
from grading.grader import Grader
from grading.limits import Limits
from grading.submissions import Submission

STOP_S = 10  # that all graders together get to finish what they are at


def basis_of(submission: Submission, limits: Limits) -> dict:
    """What a result depends on and a record says of it, so that anybody can make it again."""
    lab = labs_by_prefix()[submission.lab]
    return {
        "lab_name": lab.name,
        "max_score": 100,
        "source_sha256": hashlib.sha256(submission.source or b"").hexdigest(),
        "tests_sha256": tests_digest(lab),
        "environment": environment(),
        "limits": asdict(limits),
    }


def _key(submission, limits, secret, weak):
    """The gradebook's name of a result: it changes with all that the result depends on."""
    return key_of(
        student=submission.student,
        lab=submission.lab,
        problem=submission.problem,
        secret=hashlib.sha256(b"gradebook" + secret).hexdigest() if secret else None,
        weak=weak,
        **basis_of(submission, limits),
    )


def grade_locally(jobs, limits, secret, weak, count):
    """Yield (key, submission, result, seconds) as they finish, from `count` graders."""
    idle, numbers, labs = queue.SimpleQueue(), itertools.count(), labs_by_prefix()

    def grade(job):
        key, submission = job
        try:
            grader = idle.get_nowait()
        except queue.Empty:  # at first; there are no more of them than threads
            grader = Grader(limits, weak, secret, next(numbers))
        started = time.perf_counter()
        try:
            result = grader.grade_or_refuse(submission, labs[submission.lab])
        finally:
            idle.put(grader)
        return key, submission, result, time.perf_counter() - started

    pool = ThreadPool(count)
    try:
        yield from pool.imap_unordered(grade, jobs)
    finally:
        pool.terminate()
        deadline = time.monotonic() + STOP_S
        for _ in range(next(numbers)):  # what is not done by then the next run grades again
            with contextlib.suppress(queue.Empty):
                idle.get(timeout=max(0, deadline - time.monotonic())).close()


def grade_missing(gradebook: Gradebook, submissions, limits, secret, weak, engine):
    """Grade every submission without a record; (graded now, held).

    `engine(jobs)` yields (key, submission, result, seconds).
    """
    jobs = [(_key(submission, limits, secret, weak), submission) for submission in submissions]
    gradebook.set_hand_ins((s.student, s.lab, key, s.where, s.late) for key, s in jobs)
    known = gradebook.keys()
    graded = held = 0
    for key, submission, result, seconds in engine([j for j in jobs if j[0] not in known]):
        if result["status"] == "graded":
            record = result | basis_of(submission, limits)
            gradebook.commit(key, submission.student, submission.lab, record, seconds)
            graded += 1
        else:
            gradebook.hold(key, result["problem"])
            held += 1
    return graded, held
