"""Slurm jobs as workers of a Dask scheduler in this process. A lost job is submitted again.

dask-jobqueue does the same but does not ask Slurm again for a job that ended before its worker
came, and a refusal of sbatch reaches only its log: a run would wait without end.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from math import ceil, inf
from pathlib import Path

from grading.limits import LOST, MIB
from grading.problem import Problem
from labkit.loading import ROOT

BATCH = 50  # submissions that are worth a job of their own
FOLDER = ".grading-jobs-"
SQUEUE_S = 15  # between two questions to Slurm's controller


class SlurmWorkers:
    """As many jobs as `count` submissions at a time need. Both ends show a certificate of this run:
    other users of the cluster reach the scheduler's port, and could run code through it."""

    def __init__(self, count, number, limits, out, options):
        self.cpus = int(options.get("cpus_per_task", 1))
        self.wanted = ceil(min(count or inf, ceil(number / BATCH) * self.cpus) / self.cpus)
        memory = f"{self.cpus * (limits.memory_bytes // MIB + 1024)}M"
        given = any(name.startswith("mem") for name in options)
        self.options = {"job_name": "grading", "cpus_per_task": self.cpus, "time": 60}
        self.options |= ({} if given else {"mem": memory}) | options
        self.out, self.jobs, self.lost, self.progress = out, set(), 0, inf
        self.next_s = -inf

    def __enter__(self):
        from distributed import LocalCluster, Security

        for old in Path(self.out).glob(f"{FOLDER}*"):  # a killed run's
            shutil.rmtree(old, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=FOLDER, dir=self.out)).resolve()
        security = Security.temporary()
        self.cluster = LocalCluster(
            n_workers=0,
            host="tls://0.0.0.0:0",
            protocol="tls",
            security=security,
            dashboard_address="127.0.0.1:0",
        )
        worker = [sys.executable, "-m", "distributed.cli.dask_worker"]
        worker += [self.cluster.scheduler_address, "--nthreads", str(self.cpus), "--no-nanny"]
        worker += ["--no-dashboard", "--death-timeout", "60", "--local-directory", "/tmp"]
        for name, text in security.get_tls_config_for_role("worker").items():
            if name != "ciphers":
                file = self.folder / f"{name}.pem"
                file.write_text(text)
                worker += [f"--tls-{name.replace('_', '-')}", str(file)]
        options = {name.replace("_", "-"): value for name, value in self.options.items()}
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.script = self.folder / "worker.sh"
        self.script.write_text(
            "#!/bin/bash\n"
            + "".join(f"#SBATCH --{name}={value}\n" for name, value in options.items())
            + f"#SBATCH --output={self.folder}/%j.log\n"
            + f"export PYTHONPATH={shlex.quote(path)}\nexec {shlex.join(worker)}\n"
        )
        return self

    def __exit__(self, *_):
        subprocess.run(["scancel", *self.jobs], capture_output=True)
        self.cluster.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def look(self, progress):
        """Submit jobs in place of those that Slurm no longer has, unless none grades anything."""
        if time.monotonic() < self.next_s:
            return
        self.next_s = time.monotonic() + SQUEUE_S
        command = ["squeue", "--me", "--noheader", "--format=%i"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return  # its controller is busy: nothing new is known
        ended = self.jobs - set(done.stdout.split())
        self.lost = len(ended) + (self.lost if progress == self.progress else 0)
        self.progress = progress
        if self.lost >= LOST * self.wanted:
            logs = [self.folder / f"{job}.log" for job in ended]
            said = [text.split() for log in logs if log.exists() and (text := log.read_text())]
            last = " ".join(said[-1])[-300:] if said else "nothing"
            raise Problem(
                f"{self.lost} Slurm jobs ended without grading anything; the last said: {last}"
            )
        self.jobs -= ended
        while len(self.jobs) < min(self.wanted, progress):
            self.jobs.add(self._submit())

    def _submit(self):
        command = ["sbatch", "--parsable", str(self.script)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            why = " ".join((done.stderr or done.stdout).split())
            raise Problem(f"Slurm refused the jobs: {why}")
        return done.stdout.split(";")[0].strip()
