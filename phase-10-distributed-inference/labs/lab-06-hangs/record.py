"""Make the recordings again: real processes, one thing wrong with each. Linux; two cases need root.

A case is looked at twice. At each look every rank is asked for the stacks of its threads, and the
kernel for the process's state, processor time and sockets.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import record_vllm
from given_evidence import pace_s
from live.hosts import two_hosts
from looks import GONE, Run, free_port, look_at, running, tidy

RANK = Path(__file__).with_name("serving_rank.py")


@dataclass(frozen=True)
class Case:
    """`fault` of serving_rank.py, or serving_vllm.py, on the rank `culprit`, from step `at` on."""

    cause: str
    where: tuple  # the ranks that a diagnosis names
    fault: str = ""
    culprit: int = 1
    at: int = 30
    store: bool = True  # somebody serves the store
    hosts: bool = False  # each rank on a host of its own
    vllm: str = ""  # served by vLLM, and what its two ranks do: "tensor" or "data" parallelism
    waits_s: tuple = (8.0, 6.0)  # to the first look, and from there to the second
    healthy: str = "healthy"  # the case that keeps the pace of such a run


TENSOR = {"vllm": "tensor", "healthy": "vllm-healthy", "at": 200}
DATA = {"vllm": "data", "healthy": "vllm-dummy-steps"}
CASES = {
    "healthy": Case("healthy", ()),
    "died-early": Case("died-early", (1,), "import"),
    "raised": Case("raised", (1,), "raise"),
    "other-operation": Case("operation", (0, 1), "operation"),
    "other-shape": Case("shape", (0, 1), "shape"),
    "idle-rank": Case("idle", (1,), "idle"),
    "wrong-address": Case("wrong-address", (0,), "wrong-address", culprit=0, hosts=True),
    "stale-lock": Case("stale-lock", (1,), "stale-lock", at=0),
    "very-slow": Case("slow", (1,), "slow"),
    "two-groups": Case("circular", (0, 1), "order"),
    "store-gone": Case("store-gone", (), store=False),
    "killed": Case("killed", (1,), "killed"),
    "wrong-sums": Case("corrupt-link", (0, 1), "corrupt"),
    "vllm-healthy": Case("healthy", (), **TENSOR),
    "vllm-raised": Case("raised", (1,), "raise", **TENSOR, waits_s=(4.0, 62.0)),
    "vllm-killed": Case("killed", (1,), "killed", **TENSOR, waits_s=(2.0, 3.0)),
    "vllm-dummy-steps": Case("healthy", (), **DATA),
    "vllm-idle": Case("idle", (1,), "idle", **DATA, waits_s=(4.0, 62.0)),
}


def pace_of_a_healthy_run(name, say=lambda words: None):
    """Seconds from one collective of a group to its next, in a run like that of the case."""
    return record(CASES[name].healthy, say=say)["pace_s"]


def record(name, pace=None, say=lambda words: None):
    """Evidence of one run of a case, as given_evidence.py describes it; pace: its own, or None.

    say: is told what it does, before it does it.
    """
    case, looks = CASES[name], []
    started = record_vllm.started if case.vllm else started_ranks
    say(f"  {name}: starting it")
    with tempfile.TemporaryDirectory() as folder, started(case, Path(folder)) as run:
        for number, wait_s in enumerate(case.waits_s, start=1):
            say(f"  {name}: look {number} of {len(case.waits_s)}, in {wait_s:.0f} s")
            looks.append(_look(run, wait_s))
        links = run.folder / "links.json"
        evidence = {
            "command": run.command + f" --fault {case.fault}" * bool(case.fault),
            "groups": run.groups,
            "network": run.network,
            "store": {"address": run.address, "answers": run.answers()},
            "looks_s": [look["at_s"] for look in looks],
            "pace_s": pace,
            "links": json.loads(links.read_text()) if links.exists() else None,
            "ranks": [_rank(run, rank, looks) for rank in range(len(run.pids))],
        }
        return evidence | run.besides | ({} if pace else {"pace_s": round(pace_s(evidence), 4)})


@contextlib.contextmanager
def started_ranks(case, folder):
    """Two ranks of serving_rank.py as a Run."""
    with contextlib.ExitStack() as stack:
        enter, host, network = [[], []], "127.0.0.1", "127.0.0.0/8"
        if case.hosts:
            enter = [words for words, _ in stack.enter_context(two_hosts())]
            host, network = "10.77.0.1", "10.77.0.0/24"
            for words in (
                "link add bridge0 type veth peer name inner0",
                "address add 10.5.0.1/24 dev bridge0",
                "link set bridge0 up",
            ):
                subprocess.run([*enter[0], "ip", *words.split()], check=True)
        address = f"{host}:{free_port()}"
        if case.fault == "stale-lock":  # whoever built the kernel was killed half-way
            (folder / "kernel.lock").touch()
        commands = [_command(case, rank, address, enter[rank], folder) for rank in range(2)]
        ranks = stack.enter_context(running(commands, folder))
        ended = {}

        def poll():
            for number, rank in enumerate(ranks):
                if number not in ended and rank.poll() is not None:
                    ended[number] = rank.returncode, time.time()
            return ended

        yield Run(
            folder,
            "serving_rank.py --size 2",
            address,
            [rank.pid for rank in ranks],
            poll,
            lambda rank: tidy((folder / f"log-{rank}").read_text(errors="replace"), folder)[-20:],
            network=network,
            answers=lambda: _answers(address, enter[0]),
        )


def _command(case, rank, address, enter, folder):
    """The words that start a rank; `enter` takes it to its host."""
    card = ["env", f"GLOO_SOCKET_IFNAME={'cable0' if case.hosts else 'lo'}"]
    words = [*enter, *card, sys.executable, str(RANK), "--rank", str(rank), "--size", "2"]
    words += ["--store", address, "--folder", str(folder), "--at-step", str(case.at)]
    words += ["--no-store-here"] * (not case.store) + ["--links"] * (case.fault == "corrupt")
    if rank == case.culprit and case.fault:
        words += ["--fault", case.fault]
    return words


def _look(run, wait_s):
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        run.ended()
        time.sleep(0.005)
    at_s = round(time.time() - run.started_s, 3)
    ended = dict(run.ended())
    run.see()
    seen = [GONE if n in ended else look_at(pid, run.folder) for n, pid in enumerate(run.pids)]
    return {"at_s": at_s, "ranks": seen}


def _rank(run, number, looks):
    seen = [look["ranks"][number] for look in looks]
    met, collectives = _events(run.folder / f"events-{number}.jsonl", run.started_s)
    exit_status, ended_s = run.ended().get(number, (None, None))
    return {
        "met": met,
        "exit": exit_status,
        "ended_s": ended_s and round(ended_s - run.started_s, 3),
        "states": [look["state"] for look in seen],
        "waits_in": [look["waits_in"] for look in seen],
        "cpu_s": [look["cpu_s"] for look in seen],
        "stacks": [look["stack"] for look in seen],
        "sockets": seen[-1]["sockets"],
        "collectives": collectives[-run.kept :],
        "log": run.log(number),
    }


def _events(path, started_s):
    met, collectives = False, []
    for line in path.read_text().splitlines() if path.exists() else ():
        event = json.loads(line)
        at_s, kind = round(event.pop("at_s") - started_s, 4), event.pop("event")
        met = met or kind == "met"
        if kind == "enter":
            collectives.append(event | {"entered_s": at_s, "left_s": None})
        elif kind == "leave":
            collectives[-1]["left_s"] = at_s
    return met, collectives


def _answers(address, enter):
    """Whether something listens at the store's address, asked from the first rank's host."""
    host, port = address.split(":")
    ask = f"import socket; socket.create_connection(({host!r}, {port}), 2)"
    return not subprocess.run([*enter, sys.executable, "-c", ask], capture_output=True).returncode
