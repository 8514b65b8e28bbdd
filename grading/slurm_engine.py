"""The same run as Slurm jobs, through submitit: batches of submissions, each in a job.

submitit pickles a job's function and submissions into the jobs' folder, which a job reads; what
comes back is read as JSON lines, one per submission and at once, so that a job that dies loses only
what it was at. The folder lies beside the gradebook: on a file system that the nodes share.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from math import ceil, inf
from pathlib import Path

from grading.fingerprint import course_of
from grading.grader import ClusterError, another_course, failure
from grading.inside import walls
from grading.limits import LOST, MIB, Limits
from grading.run import grade_locally
from grading.submissions import Submission
from labkit.loading import ROOT

BATCH = 50  # submissions per job: one costs some seconds to start
FOLDER = ".grading-jobs-"
POLL_S = 0.5
SQUEUE_S = 15  # between two questions to Slurm's controller


def grade_batch(path, batch, first, limits: dict, secret, expected, graders):
    """In a job: grade, and append each result to the file at `path` when it is there.

    `first` numbers this job's graders apart from those of others. Without its file the job ends:
    the run that asked is over.
    """
    walls.die_with_parent()
    jobs = []
    for key, fields in batch:
        submission = Submission(**fields)
        if course_of(submission.lab) == expected[submission.lab]:
            jobs.append((key, submission))
        else:
            _append(path, key, another_course(submission.lab), 0.0)
    limits = Limits(**limits)
    for key, _, result, seconds in grade_locally(jobs, limits, secret, False, graders, first):
        _append(path, key, result, seconds)


def _append(path, key, result, seconds):
    with open(path, "r+b") as file:
        file.seek(0, os.SEEK_END)
        # ends what an earlier start of this job may have left half written
        file.write(b"\n" + json.dumps([key, result, seconds]).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


@dataclass
class Batch:
    """One job: its submissions' keys, and the file its results come in."""

    keys: list[str]
    path: Path
    slot: int  # no two jobs at a time have the same
    job: object = None
    submitted_s: float = inf
    read_bytes: int = 0

    def results(self):
        """(key, result, seconds) of those that came since the last call."""
        with self.path.open("rb") as file:
            file.seek(self.read_bytes)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self.read_bytes += len(data)
        for line in data.splitlines():
            with contextlib.suppress(ValueError):  # no line, or half of one
                yield json.loads(line)

    def last_words(self):
        lines = [line.strip() for line in (self.job.stderr() or "").splitlines()]
        return next((line[-300:] for line in reversed(lines) if line), "nothing")


class Queue:
    """Which jobs Slurm still has. (submitit asks its accounting, which may be switched off.)"""

    def __init__(self):
        self.ids, self.as_of_s, self.next_s = set(), -inf, -inf

    def look(self):
        now = time.monotonic()
        if now < self.next_s:
            return
        self.next_s = now + SQUEUE_S
        command = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
        with contextlib.suppress(subprocess.SubprocessError):  # busy: nothing new is known
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
            self.ids, self.as_of_s = set(done.stdout.split()), now

    def ended(self, batch):
        lost = batch.submitted_s < self.as_of_s and batch.job.job_id not in self.ids
        return lost or batch.job.paths.result_pickle.exists()


def grade_on_slurm(jobs, limits, secret, where, out, count, options):
    """Yield (key, submission, result, seconds) as jobs finish them.

    `where`: "slurm", or "submitit-local" for processes of this machine. `count`: submissions at a
    time, None for as many as Slurm gives. `options`: sbatch's.
    """
    waiting = dict(jobs)
    for old in Path(out).glob(f"{FOLDER}*"):  # a killed run's; what it left running ends by this
        shutil.rmtree(old, ignore_errors=True)
    if not waiting:
        return
    graders = int(options.get("cpus_per_task", 1))
    at_once = ceil(count / graders) if count else None
    local = where != "slurm"
    queue = None if local else Queue()
    rounds = ceil(len(waiting) / BATCH / (at_once or 1))
    keys, size = list(waiting), ceil(len(waiting) / rounds / (at_once or 1))
    parts = [keys[start : start + size] for start in range(0, len(keys), size)]
    losses, active = Counter(), []
    folder = Path(tempfile.mkdtemp(prefix=FOLDER, dir=out)).resolve()
    try:
        executor = _executor(local, folder, limits, graders, at_once, options)
        while parts or active:
            room = at_once - len(active) if local else len(parts)
            starting, parts = parts[:room], parts[room:]
            active += _submit(executor, starting, active, waiting, limits, secret, graders)
            time.sleep(POLL_S)
            if queue:
                queue.look()
            for batch in list(active):
                # asked first, so that all that an ended job has written is read below
                ended = queue.ended(batch) if queue else batch.job.done()
                for key, result, seconds in batch.results():
                    if key in waiting:
                        yield key, waiting.pop(key), result, seconds
                if not ended:
                    continue
                active.remove(batch)
                left = [key for key in batch.keys if key in waiting]
                # Without any result the job itself may be what is wrong; else those it was at.
                suspects = left[:graders] if len(left) < len(batch.keys) else left
                losses.update(suspects)
                for key in [key for key in suspects if losses[key] >= LOST]:
                    left.remove(key)
                    why = f"{LOST} jobs ended without its result; the last said: "
                    yield key, waiting.pop(key), failure(why + batch.last_words()), 0.0
                parts += [part for part in (left[:graders], left[graders:]) if part]
    finally:
        _cancel(active, local)
        shutil.rmtree(folder, ignore_errors=True)


def _executor(local, folder, limits, graders, at_once, options):
    import submitit

    minutes = ceil(BATCH * limits.submission_s / graders / 60) + 10  # if all use all their time
    if local:
        executor = submitit.LocalExecutor(folder)
        executor.update_parameters(timeout_min=minutes)
        return executor
    defaults = {"time": minutes, "cpus_per_task": graders}
    if not any(name.startswith("mem") for name in options):
        defaults["mem"] = f"{graders * (limits.memory_bytes // MIB + 1024)}M"
    executor = submitit.SlurmExecutor(folder)
    executor.update_parameters(
        job_name="grading",
        array_parallelism=at_once or 256,
        wckey=None,
        use_srun=False,  # a step would get one processor of cpus-per-task
        additional_parameters=defaults | options,
    )
    return executor


def _submit(executor, parts, active, waiting, limits, secret, graders):
    """A job for each list of keys."""
    from submitit.core.utils import environment_variables

    if not parts:
        return []
    expected = {prefix: course_of(prefix) for prefix in {s.lab for s in waiting.values()}}
    taken = {batch.slot for batch in active}
    slots = [slot for slot in range(len(active) + len(parts)) if slot not in taken]
    batches = []
    for keys, slot in zip(parts, slots, strict=False):
        descriptor, path = tempfile.mkstemp(suffix=".jsonl", dir=executor.folder)
        os.close(descriptor)
        batches.append(Batch(keys, Path(path), slot))
    course = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    errors = io.StringIO()  # submitit prints there what it raises
    try:
        with environment_variables(PYTHONPATH=course), contextlib.redirect_stderr(errors):
            jobs = executor.map_array(
                partial(
                    grade_batch,
                    limits=asdict(limits),
                    secret=secret,
                    expected=expected,
                    graders=graders,
                ),
                [str(batch.path) for batch in batches],
                [[(key, asdict(waiting[key])) for key in batch.keys] for batch in batches],
                [batch.slot * graders for batch in batches],
            )
    except (RuntimeError, OSError) as error:
        raise ClusterError(f"Slurm refused the jobs: {' '.join(str(error).split())}") from None
    for batch, job in zip(batches, jobs, strict=True):
        batch.job, batch.submitted_s = job, time.monotonic()
    return batches


def _cancel(active, local):
    for batch in active:
        batch.job.cancel(check=False)
    for _ in range(10 if local else 0):
        if all(batch.job.done() for batch in active):
            return
        time.sleep(POLL_S)
