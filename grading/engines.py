"""What grades a list of submissions: this machine, or Dask's workers."""

import importlib.util
import os
import re
import shutil

from grading.problem import Problem
from grading.run import grade_locally

HERE = (None, "local")  # the workers are processes of this machine
PACKAGES = ("distributed", "cryptography")


def check(where, slurm: list[str], weak) -> dict[str, str]:
    """Refuse what cannot work, before any work; else what --slurm asks of sbatch."""
    if slurm and where != "slurm":
        raise Problem(f"--slurm {slurm[0]} goes with --cluster slurm")
    if where is None:
        return {}
    if not where:
        raise Problem("--cluster: give local, slurm or a scheduler's address")
    if weak:
        raise Problem(
            f"--cluster {where} needs the whole sandbox: its workers exchange pickles, which a "
            "weakly sandboxed submission could write; leave out --allow-weak-sandbox or --cluster"
        )
    for tool in ("sbatch", "squeue", "scancel") if where == "slurm" else ():
        if shutil.which(tool) is None:
            raise Problem(
                f"--cluster slurm: there is no {tool} on this machine; run this where Slurm jobs "
                "are submitted, or leave out --cluster to grade on this machine"
            )
    if lacking := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise Problem(
            f"--cluster {where} needs the package {lacking[0]}; in the course's folder: "
            ".venv/bin/python -m pip install --group cluster"
        )
    return sbatch_options(slurm)


def sbatch_options(texts: list[str]) -> dict[str, str]:
    """`partition=long,time=30` by name; a value may hold commas itself (`nodelist=a,b`)."""
    found = {}
    for part in (part for text in texts for part in re.split(r",(?=[^,=]+=)", text)):
        name, _, value = part.partition("=")
        name = name.replace("-", "_")
        if not re.fullmatch(r"[a-z][a-z_]*", name) or not value:
            raise Problem(
                f"--slurm {part}: give long options of sbatch, such as "
                "partition=long,time=30,cpus-per-task=4"
            )
        found[name] = value
    if not re.fullmatch(r"[1-9]\d{0,3}", found.get("cpus_per_task", "1")):
        raise Problem(f"--slurm cpus-per-task={found['cpus_per_task']}: give a whole number")
    return found


def grade(jobs, limits, secret, options, sbatch):
    """What this machine or a cluster yields of a list of jobs, as `grade_locally` does."""
    if not options.cluster:
        count = options.jobs or len(os.sched_getaffinity(0))
        return grade_locally(jobs, limits, secret, options.allow_weak_sandbox, count)
    from grading.dask_engine import grade_on_dask

    return grade_on_dask(jobs, limits, secret, options.cluster, options.jobs, options.out, sbatch)
