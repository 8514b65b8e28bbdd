"""What the recorded logs of a two-way engine say."""

import re

import figures
from labbook.labs import capture, model, solution

log = capture("lab-02/captures/tp2-engine/engine.log")
two = capture("lab-02/captures/tp2/report.json")
evidence = figures.engine.evidence(log)

asked = next(line for line in log.splitlines() if "Initializing a V1 LLM engine" in line)
settings = {
    "tensor_parallel_size": "two ranks were asked for, not yet made",
    "dtype": "four bytes per number; the ledger multiplies with this",
    "max_seq_len": "the longest request; it decides how the log counts tokens",
    "kv_cache_dtype": "the cache has the type of the model itself",
    "disable_custom_all_reduce": "vLLM's own kernel is off; on GPUs that would cost time",
    "enforce_eager": "no CUDA graph will be recorded; on GPUs that would cost time, too",
}
setting_rows = [
    [f"`{k}`", f"`{re.search(rf'{k}=([^,]+)', asked)[1]}`", why] for k, why in settings.items()
]

cache = two["ranks"][0]["kv_cache"]
per_token = cache["page_bytes_per_layer"] * cache["layers"] // cache["block_size"]

llama = model("llama-3.1-8b")
kv, blocks, rows = figures.tables.published_start()

# Our own start of it, on an H200; beside it the ledger, and the planner of the capstone.
lab02 = solution("lab-02")
own = lab02.read_startup_log(capture("lab-02/captures/tp1-gpu-8b/rank-0.log"))
(worker,) = own["ranks"]
own_weights = lab02.rank_weights(llama, 1)["total_bytes"] / lab02.GIB
over_mib = (worker["weights_gib"] - own_weights) * 1024
rounded_mib = 0.005 * 1024  # what hundredths of a GiB can hide
own_tokens = lab02.kv_capacity(
    worker["kv_memory_gib"] * lab02.GIB,
    lab02.kv_bytes_per_token(llama, 1),
    16,
    own["max_model_len"],
)["tokens"]
off_tokens = abs(own_tokens - own["kv_tokens"][0])
room = figures.times.cache_gib("llama-3.1-8b", "h200")

shown = {
    "tp1": "one rank, for comparison",
    "tp2": "two ranks: half of the matrices, all of the norms, twice the blocks",
    "tp2-replicated-kv": "one KV head, which both ranks hold",
    "tp2-tied": "an output matrix that is the embedding: one tensor with two names",
    "tp2-vocab-500": "a vocabulary of 500 rows, stored as 512",
    "pp2": "two pipeline stages, no all-reduce; the last stage has the last norm, too",
    "tp2-two-hosts": "two network namespaces joined by a virtual cable",
}
by_name = figures.tables.captured(shown)


def provenance(*keys):
    """Lines of the start-up's provenance, long values cut."""
    made = capture("lab-02/captures/tp2-engine/provenance.json")
    for key in keys:
        value = made[key]
        if not isinstance(value, str):
            value = " ".join(list(value.items())[0])[:68] + " ..."
        yield f"{key + ':':10} {value}"


# What the page says, held.
ledger_is_near = 0 <= own_tokens - own["kv_tokens"][0] < 50 and 5 < over_mib < 50
planner_is_near = (
    room[2] < worker["kv_memory_gib"] < room[0]
    and abs(room[1] / worker["kv_memory_gib"] - 1) < 0.01
)
copied_head_gains_nothing = (
    by_name["tp2-replicated-kv"][3] == 2 * by_name["tp2"][3] == 4 * by_name["tp1"][3]
)
over_a_hundred = len(re.findall(r"\w=|\w': ", asked)) > 100
