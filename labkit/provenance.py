"""Where a recorded run comes from: command, date, commit, versions, machine, hashes of files."""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path

from labkit.loading import ROOT, sha256


def write_provenance(command, folder, files, packages=("numpy",), **more) -> dict:
    """Write folder/provenance.json beside `files` (names in folder); returns what it holds.

    packages: distributions whose versions matter. more: facts of this kind of run.
    """
    record = provenance(command, folder, files, packages, **more)
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (Path(folder) / "provenance.json").write_text(text, encoding="utf-8")
    return record


def provenance(command, folder, files, packages=("numpy",), **more) -> dict:
    """What a reader needs to judge a run that wrote `files` (names in folder)."""
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "git_commit": git_commit(),
        "versions": {"python": platform.python_version()}
        | {name: version for name in packages if (version := _version(name))},
        "hardware": hardware(),
        **more,
        "sha256": {name: sha256(Path(folder) / name) for name in files},
    }


def hardware() -> dict:
    """System, processor, cpus this process may use, load average, and GPUs if Torch sees any."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cpus": _cpus(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "gpus": _gpus(),
    }


def processor(cpuinfo=Path("/proc/cpuinfo")) -> str:
    """The processor's name as far as the system tells; arm64 Linux lists no "model name"."""
    with contextlib.suppress(OSError):
        for line in Path(cpuinfo).read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def git_commit() -> str | None:
    """The checkout's commit, with `-dirty` when tracked files differ from it; None without git."""

    def git(*arguments):
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout

    with contextlib.suppress(OSError, subprocess.SubprocessError):
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD").strip() + ("-dirty" if changed else "")
    return None


def _version(name):
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _cpus():
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count()


def _gpus():
    with contextlib.suppress(ImportError):
        import torch

        return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return []
