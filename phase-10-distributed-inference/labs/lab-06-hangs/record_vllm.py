"""A run of vLLM's own server, for record.py: two workers, with requests while it is looked at."""

import contextlib
import json
import os
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import looks
from live import run as live
from live.model import tiny_llama, tiny_mixtral, write_model

from labkit.loading import ROOT

PROGRAM = Path(__file__).with_name("serving_vllm.py")
OPTIONS = {"tensor": {}, "data": {"data_parallel_size": 2, "enable_expert_parallel": True}}
START_S, SILENCE_S = 300, 2.0
PREFIX = re.compile(r"\((\w+) pid=(\d+)\) \w+ \S+ \S+ \[\S+\] ")  # vLLM's, before what it says
# Its own room for shared memory, which goes with its last process.
OWN_MEMORY = 'mount -t tmpfs tmpfs /dev/shm && exec "$@"'


@contextlib.contextmanager
def started(case, folder):
    """vLLM as a looks.Run: once it serves and, where it shall hang, has fallen silent."""
    port, began_s = looks.free_port(), time.time()
    config = tiny_llama() if case.vllm == "tensor" else tiny_mixtral()
    write_model(folder / "model", config)
    words = _words(live.engine_arguments(
        folder / "model", config, 2 if case.vllm == "tensor" else 1, load_format="auto",
        kv_cache_memory_bytes=32 * 2**20, **OPTIONS[case.vllm], host="127.0.0.1", port=port,
    ))  # fmt: skip
    interpreter = live.python()
    own = ["unshare", *["--map-root-user"] * (os.getuid() != 0), "--mount"]
    command = [*own, "sh", "-c", OWN_MEMORY, "sh", interpreter, str(PROGRAM), *words]
    with looks.running([command], folder, env=_environment(case, folder)) as [server]:
        _wait_for(lambda: _status(port) == 200, server, folder)
        ends = folder / "events-ends.jsonl"
        met = [json.loads((folder / f"events-{n}.jsonl").open().readline()) for n in range(2)]
        pids = [one["pid"] for one in met]
        with requests(port, folder / "model", case):
            _wait_for(lambda: not case.fault or _silent(folder, case), server, folder)
            run = looks.Run(
                folder,
                " ".join(["vllm serve $RUN/model", *words[2:]]),
                "file:///dev/shm/vllm_dist",
                pids,
                lambda: _ended(ends, pids),
                lambda rank: _lines(folder, pids[rank : rank + 1]),
                kept=40,
                groups=met[0]["groups"],
                started_s=began_s,
            )
            server = {"health": [], "processes": {}}
            run.see = lambda: _see(run, port, server)
            run.besides = {"server": server}
            yield run


def _words(arguments):
    """The arguments of LLM(...) as options of the command line."""
    words = []
    for name, value in arguments.items():
        name = name.replace("_", "-")
        flag = {True: [f"--{name}"], False: [f"--no-{name}"]}
        words += flag[value] if isinstance(value, bool) else [f"--{name}", str(value)]
    return words


def _environment(case, folder):
    environment = live.environment(live.python(), folder)
    paths = ROOT, live.ROOM.parent, live.ROOM
    return environment | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "TMPDIR": "/dev/shm",  # its own; a socket's path must be short, and nothing is left of it
        "LAB_FOLDER": str(folder),
        "LAB_FAULT": case.fault,
        "LAB_AT": str(case.at),
    }


def _wait_for(it, server, folder):
    until = time.monotonic() + START_S
    while not it():
        if server.poll() is not None or time.monotonic() > until:
            said = (folder / "log-0").read_text(errors="replace").strip().splitlines()
            raise live.LiveError(f"vLLM did not start: {said[-1] if said else 'no message'}")
        time.sleep(0.2)


def _silent(folder, case):
    """Whether no rank has entered or left anything for some time, nor the culprit ended."""
    if case.fault == "killed":
        return (folder / "events-ends.jsonl").exists()
    newest_s = max(path.stat().st_mtime for path in folder.glob("events-[01].jsonl"))
    return time.time() - newest_s > SILENCE_S and _length(folder) > 50


def _length(folder):
    return min(len(path.read_text().splitlines()) for path in folder.glob("events-[01].jsonl"))


def _status(port, wait_s=2):
    """What the server answers to "are you well?"; None when it does not answer."""
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=wait_s).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


@contextlib.contextmanager
def requests(port, model, case):
    """Requests without a pause. Of two data-parallel ranks the second gets one, a short one."""
    body = {"model": str(model), "prompt": live.PROMPTS[0], "ignore_eos": True, "temperature": 0}
    over = threading.Event()

    def ask(rank, num_tokens, again):
        head = {"Content-Type": "application/json"}
        head |= {"X-data-parallel-rank": str(rank)} if case.vllm == "data" else {}
        asked = json.dumps(body | {"max_tokens": num_tokens}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", asked, head)
        while not over.is_set():
            with contextlib.suppress(OSError):
                urllib.request.urlopen(request, timeout=100).read()
            if not again:
                return

    todo = [(0, 50, True), (0, 41, True)] + [(1, 9, False)] * (case.vllm == "data")
    for one in todo:
        threading.Thread(target=ask, args=one, daemon=True).start()
    yield
    over.set()


def _ended(path, pids):
    """{rank: (exit, time)} of the workers that have ended, as their parent noted it."""
    lines = path.read_text().splitlines() if path.exists() else []
    ends = {one["pid"]: (one["exit"], one["at_s"]) for one in map(json.loads, lines)}
    return {rank: ends[pid] for rank, pid in enumerate(pids) if pid in ends}


def _see(run, port, server):
    """The other processes: what they do, and whether the server says that it is well."""
    server["health"].append(_status(port))
    others = [int(path.name.split("-")[1]) for path in run.folder.glob("stacks-*")]
    others = sorted(set(others) - set(run.pids))
    for pid in others:
        title = Path(f"/proc/{pid}/cmdline")
        words = title.read_text().split("\0") if title.exists() else [""]
        name = words[0].strip().removeprefix("VLLM::") if "VLLM::" in words[0] else "APIServer"
        seen = looks.look_at(pid, run.folder)
        server["processes"][name] = {key: seen[key] for key in ("state", "waits_in", "stack")}
    server["log"] = _lines(run.folder, others)


def _lines(folder, pids):
    """What these processes said last, of tracebacks the first line and the error."""
    environment = Path(live.python()).parent.parent
    more = [(environment, "$VENV"), (environment.resolve(), "$VENV"), (sys.base_prefix, "$PYTHON")]
    found = []
    for line in looks.tidy((folder / "log-0").read_text(errors="replace"), folder, *more):
        said = PREFIX.match(line)
        if said and int(said[2]) in pids and line[said.end() :].strip():
            if not line[said.end() :].startswith("  ") and "Route: " not in line:
                found.append(line)
    return found[-20:]
