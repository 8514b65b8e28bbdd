"""Grade what a gradebook does not hold yet, on this machine's cores or on a cluster's."""

import hashlib
import queue
import threading
import time
from dataclasses import asdict

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
    waiting, finished, stop = queue.SimpleQueue(), queue.SimpleQueue(), threading.Event()
    jobs, labs = list(jobs), labs_by_prefix()
    for job in jobs:
        waiting.put(job)

    def work(number):
        try:
            with Grader(limits, weak, secret, number) as grader:
                while not stop.is_set():
                    key, submission = waiting.get_nowait()
                    started = time.perf_counter()
                    result = grader.grade_or_refuse(submission, labs[submission.lab])
                    finished.put((key, submission, result, time.perf_counter() - started))
        except queue.Empty:
            pass
        except BaseException as error:
            finished.put(error)

    threads = [
        threading.Thread(target=work, args=(number,), daemon=True)
        for number in range(min(count, len(jobs)))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in jobs:
            done = finished.get()
            if isinstance(done, BaseException):
                raise done
            yield done
    finally:
        stop.set()
        deadline = time.monotonic() + STOP_S
        for thread in threads:  # what is not done by then is graded again by the next run
            thread.join(max(0, deadline - time.monotonic()))


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
