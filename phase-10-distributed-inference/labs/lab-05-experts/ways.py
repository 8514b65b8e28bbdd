"""Four ways to run a tiny mixture of experts in a real vLLM, and what the learner says of each."""

import itertools
import math
import re
from pathlib import Path

from live import run
from live.model import shapes, tiny_deepseek, tiny_mixtral, write_model

MODELS = {"deepseek": tiny_deepseek, "mixtral": tiny_mixtral}
# Where a processor has AMX, vLLM 0.32.0 (platforms/cpu.py) prefers AMX_MLA, which refuses float32.
ON_CPU = {"deepseek": {"attention_backend": "CPU_MLA"}, "mixtral": {}}
WAYS = {  # options of vLLM
    "one": {},
    "tp": {"tensor_parallel_size": 2},
    "ep": {"tensor_parallel_size": 2, "enable_expert_parallel": True},
    "dp": {"data_parallel_size": 2, "enable_expert_parallel": True},
}
PROGRAM = run.ROOM / "experts_rank.py"
KV_MEMORY_BYTES = 32 * 2**20  # per rank, in all four ways
REQUESTS = [[run.PROMPTS[0], 16], [run.PROMPTS[1], 10]]  # [prompt, how many tokens]; one ends first
TIMEOUT_S = 240

# How tensor parallelism cuts what the checkpoint holds, in the words of lab 02: by the last name.
SPLITS = dict.fromkeys(("q_proj", "k_proj", "v_proj", "kv_b_proj"), "rows")
SPLITS |= dict.fromkeys(("gate_proj", "up_proj", "w1", "w3"), "rows")
SPLITS |= dict.fromkeys(("o_proj", "down_proj", "w2"), "columns")
SPLITS |= dict.fromkeys(("embed_tokens", "lm_head"), "vocab")  # all else is whole on every rank


def ranks_of(way):
    """(tensor-parallel ranks, data-parallel ranks, whether experts are dealt out)."""
    options = WAYS[way]
    sizes = (options.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "data"))
    return (*sizes, options.get("enable_expert_parallel", False))


def start(runs, folder, without=(), **options):
    """Run vLLM for each (model, way) of `runs`: {run: {"reports", "logs"}}, one of each per rank.

    Of each step the report (live/experts_rank.py) has the totals: {operation: [count, payload
    bytes]}. folder: empty or new; it keeps the logs. without: patches to leave out
    (live/cpu_experts.py). options: of live.run.run_jobs.
    """
    folder, jobs = Path(folder).resolve(), []
    for model, way in runs:
        tp_size, dp_size, _ = ranks_of(way)
        config = MODELS[model]()
        weights = write_model(folder / model, config)
        sizes = {"kv_cache_memory_bytes": KV_MEMORY_BYTES} | WAYS[way]
        requests = [[one] for one in REQUESTS] if dp_size > 1 else [REQUESTS]
        engine = run.engine_arguments(weights, config, tp_size) | sizes
        job = {"engine": engine, "on_cpu": ON_CPU[model], "requests": requests}
        jobs.append(job | {"without": list(without)})
    found = run.run_jobs(jobs, folder=folder, program=PROGRAM, timeout_s=TIMEOUT_S, **options)
    logs = (folder / f"rank-{number}.log" for number in itertools.count())
    for report in itertools.chain(*found):
        report["steps"] = [run.totals(calls) for calls in report["steps"]]
    return {
        name: {"reports": ranks, "logs": [next(logs).read_text(errors="replace") for _ in ranks]}
        for name, ranks in zip(runs, found, strict=True)
    }


def tokens_of(reports):
    """The answers to REQUESTS, whichever rank gave them."""
    if len(reports) > 1 and len(reports[0]["tokens"]) < len(REQUESTS):
        return [tokens for report in reports for tokens in report["tokens"]]
    return reports[0]["tokens"]


def number_of_experts(config):
    return config.get("num_local_experts") or config["n_routed_experts"]


def sparse_layers(config):
    return config["num_hidden_layers"] - config.get("first_k_dense_replace", 0)


def parameters_bytes(config, way, rank, ledger, experts):
    """The bytes of one rank's weights: lab 02's rank_shape, lab 05's placement."""
    tp_size, dp_size, dealt = ranks_of(way)
    heads = {"num_heads": config["num_attention_heads"]}
    placement = experts.place_in_order(number_of_experts(config), tp_size * dp_size)
    total = 0
    for name, shape in shapes(config).items():
        split, size = SPLITS.get(name.split(".")[-2], "whole"), tp_size
        expert = re.search(r"\.experts\.(\d+)\.", name)
        if expert and dealt:
            if placement[int(expert[1])] != rank:
                continue
            size = 1
        parameter = {"name": name, "shape": list(shape), "split": split}
        total += math.prod(ledger.rank_shape(parameter, heads, size)) * 4  # float32
    return total


def cache_tokens(config, way, block_size, version, ledger, experts):
    """The tokens of cache that the engine of one rank reports: labs 05 and 02."""
    tp_size, dp_size, _ = ranks_of(way)
    kv_heads, head_bytes = config["num_key_value_heads"], 0
    if latent := config.get("kv_lora_rank"):
        kv_heads, head_bytes = 1, 4 * (latent + config["qk_rope_head_dim"])
    else:
        head_bytes = 2 * 4 * config["head_dim"]
    sizes = kv_heads, head_bytes, tp_size * dp_size, dp_size > 1
    per_token = config["num_hidden_layers"] * experts.cache_bytes_per_token(*sizes)
    planned = ledger.kv_capacity(KV_MEMORY_BYTES, per_token, block_size, run.MAX_MODEL_LEN, version)
    return planned["tokens"]


def tokens_of_step(way, step):
    """How many tokens each engine has in a step (a rank that is done brings one dummy)."""
    sizes = []
    for prompt, num_tokens in REQUESTS:
        sizes.append(len(prompt) if step == 0 else int(step < num_tokens))
    return [max(1, size) for size in sizes] if ranks_of(way)[1] > 1 else [sum(sizes)]
