"""The loop closed here: plan lab 02's tiny model on two CPU ranks, start it, reconcile.

Lab 02's program two_way.py starts it (it needs `make vllm`) and writes what its workers held.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from planner import command, hardware, labs, models, plans
from planner.memory import Plan
from planner.timing import Load

KV_MEMORY_BYTES = 8 * 2**20  # --kv-cache-memory-bytes of lab 02's live runs
CPU_BLOCK = 128  # tokens in a block of vLLM's CPU backend
CPU = {
    "gpu": {
        "name": "CPU rank",
        "reported_mib": 8192,
        "memory_gb_per_s": 20,
        "dense_tflops": {"16": 0.05},
        "link": {"c_us": [20, 60, 200], "a_us": [10, 30, 100], "busbw_gb_per_s": {"2": [4, 2, 1]}},
    },
    "gpus_per_node": 2,
}
TIMEOUT_S = 400


def planned():
    """(model, expected start-up of TP2): before anything is started."""
    model = models.read("tiny-llama")
    box = hardware.box(None, mine=CPU)
    load = Load(11, 16, 2, 4, 0.9, 64, 4, 64, kv_memory=KV_MEMORY_BYTES, block_size=CPU_BLOCK)
    candidate = plans.evaluate(model, box, Plan(1, 2), load)
    return model, candidate, command.expected(model, box, candidate, load)


def reconcile(model, candidate, said, measured):
    """[(claim, planned, measured)] of two_way.py's JSON; all three kinds are exact."""
    config = {k: v for k, v in model.config.items() if k != "_source"}
    run = measured["tp2"]
    rows = [("config.json", config, {k: run["config"].get(k) for k in config})]
    for rank in run["reports"]:
        held = sum(parameter["bytes"] for parameter in rank["parameters"].values())
        planned_bytes = round(candidate.memory["rank"].held_bytes)
        tokens = said["kv_tokens"][1], rank["kv_cache"]["tokens_reported"]
        rows.append((f"weights of rank {rank['rank']}, bytes", planned_bytes, held))
        rows.append((f"cache of rank {rank['rank']}, tokens", *tokens))
    log = labs.ledger().read_startup_log(run["logs"][0])
    rows.append(("max concurrency, from the log", said["concurrency"][1], log["max_concurrency"]))
    return rows


def run():
    model, candidate, said = planned()
    print(labs.answered_by())
    weights, tokens = candidate.memory["rank"].held_bytes, said["kv_tokens"][1]
    print(
        f"planned: {candidate.name}, {weights:,.0f} bytes of weights a rank, {tokens:,} tokens "
        f"of cache, {said['concurrency'][1]:.2f} requests of {said['max_model_len']} tokens"
    )
    program = labs.folder("lab-02") / "two_way.py"
    with tempfile.TemporaryDirectory(prefix="place-live-") as folder:
        found = Path(folder, "measured.json")
        arguments = [sys.executable, str(program), "--tp", "2", "--json", str(found)]
        print("starting it: python two_way.py --tp 2 (lab 02)", flush=True)
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ValueError(f"two_way.py did not end within {TIMEOUT_S} s") from None
        if not found.exists():
            words = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
            raise ValueError(f"the tiny model did not start: {words[-1]}")
        measured = json.loads(found.read_text())
    rows = reconcile(model, candidate, said, measured)
    for claim, expected, reported in rows:
        same = expected == reported
        shown = "as planned" if same else f"measured {reported}"
        value = f"{expected:,}" if isinstance(expected, int | float) else "the planned one"
        print(f"  {'yes' if same else 'NO ':3}  {claim:34}{value:>16}  {shown}")
    agrees = all(expected == reported for _, expected, reported in rows)
    print("The plan agrees with the run." if agrees else "The plan and the run differ.")
    return 0 if agrees else 1
