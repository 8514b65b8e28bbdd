"""Record vLLM with tensor parallelism: one start, then the same load once per fault.

The same processes serve every run, so that what differs between two runs is the fault alone.
"""

import contextlib
import os
import random
import threading
import time
from pathlib import Path

from live import hosts, model, run

PROGRAM = Path(__file__).with_name("tp_rank.py")
SIZES = dict(hidden_size=512, intermediate_size=1536, num_hidden_layers=6, head_dim=64)
ARGUMENTS = dict(max_model_len=128, max_num_batched_tokens=128, kv_cache_memory_bytes=16 * 2**20)
SAMPLE_S = 0.1
SAID = ("world_size", "KV cache size", "Maximum concurrency", "tensor_parallel_size", "loading")


def load(num_requests=12, num_tokens=24, every_steps=8):
    """Requests that arrive at a step, not at a time: the ranks schedule apart and must agree."""
    draw = random.Random(7)
    return [
        {
            "id": str(n),
            "arrives_at_step": n * every_steps,
            "prompt": [draw.randrange(5, 500) for _ in range(draw.randrange(12, 40))],
            "num_tokens": num_tokens,
        }
        for n in range(num_requests)
    ]


def record(faults, folder, *, tp_sizes=(2,), cable=False, num_kv_heads=4):
    """Evidence of one run per fault (faults.py), all by the same processes."""
    config = model.tiny_llama(**SIZES, num_key_value_heads=num_kv_heads)
    folder, samples, stop, watchers = Path(folder), [], threading.Event(), []
    with hosts.two_hosts() if cable else contextlib.nullcontext() as places:

        def on_start(pids):
            arguments = (faults, folder, pids, places, samples, stop)
            watchers.append(threading.Thread(target=_conduct, args=arguments))
            watchers[0].start()

        try:
            reports = run.run_ranks(
                config,
                *tp_sizes,
                folder=folder,
                program=PROGRAM,
                arguments=ARGUMENTS,
                more={"load": load(), "runs": len(faults)},
                hosts=places,
                on_start=on_start,
            )
        finally:
            stop.set()
            for watcher in watchers:
                watcher.join()
    ranks = [rank for reports_of_run in reports for rank in reports_of_run]
    plan = {"tp_size": 2, "pp_size": 1, "hosts": 2 if cable else 1, "model": config}
    logs = [_said(folder / f"rank-{n}.log") for n in range(len(ranks))]
    return [
        {
            "plan": plan,
            "start_up": [rank["start_up"] for rank in ranks],
            "log": logs,
            "ranks": [{"steps": rank["runs"][n]["steps"]} for rank in ranks],
            "requests": ranks[0]["runs"][n]["requests"],
            "processor": samples[n],
        }
        for n in range(len(faults))
    ]


def _conduct(faults, folder, pids, places, samples, stop):
    """For each run: put the fault in place, let the ranks go, watch the processor, undo."""
    for number, fault in enumerate(faults):
        if not _all_there(folder, f"ready-{number}", pids, stop):
            return
        with fault(pids, places):
            (folder / f"go-{number}").touch()
            samples.append(_watch_processor(pids, folder, f"done-{number}", stop))


def _all_there(folder, name, pids, stop, wait_s=0.01):
    while not all((folder / f"{name}-{process}").exists() for process in range(len(pids))):
        if stop.wait(wait_s):
            return False
    return True


def _watch_processor(pids, folder, name, stop):
    """Samples of [share of a core per rank], [share busy per core], as a monitor shows them."""
    tick, before, then = os.sysconf("SC_CLK_TCK"), None, None
    found = {"every_s": SAMPLE_S, "ranks": [], "cores": []}
    while not all((folder / f"{name}-{process}").exists() for process in range(len(pids))):
        if stop.wait(SAMPLE_S):
            break
        now = time.monotonic()
        counts = _cpu_ticks(pids, now * tick)
        if before:
            shares = [
                round((a - b) / tick / (now - then), 3) for a, b in zip(counts, before, strict=True)
            ]
            found["ranks"].append(shares[: len(pids)])
            found["cores"].append(shares[len(pids) :])
        before, then = counts, now
    return found


def _cpu_ticks(pids, now):
    """Ticks used so far by each process, then each core's that were not idle; now is in ticks.

    The kernel measures idle time, but may only sample what is busy, 250 times a second: a quota,
    which runs and stops in a rhythm of its own, would be seen at three quarters instead of half.
    """
    counts = []
    for pid in pids:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        counts.append(int(words[11]) + int(words[12]))
    for line in Path("/proc/stat").read_text().splitlines()[1 : 1 + len(pids)]:
        idle, waiting = map(int, line.split()[4:6])
        counts.append(now - idle - waiting)
    return counts


def _said(log):
    """The lines of a start-up log that say how the model was placed, without its folder."""
    lines = [
        line.strip()[:300]
        for line in log.read_text(errors="replace").splitlines()
        if any(word in line for word in SAID)
    ]
    return [line.replace(str(log.parent), "$RUN") for line in lines[:12]]


def used_by_others(evidence):
    """Mean share of each core that was busy but not with its rank; [] where nobody watched."""
    watched = evidence.get("processor", {"ranks": [], "cores": []})
    pairs = zip(watched["ranks"], watched["cores"], strict=False)
    beyond = [[max(0, c - r) for r, c in zip(*row, strict=True)] for row in pairs]
    return [sum(column) / len(column) for column in zip(*beyond, strict=True)]
