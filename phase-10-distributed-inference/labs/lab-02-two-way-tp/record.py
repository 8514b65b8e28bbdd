"""Record the captures of this lab: run vLLM, keep what it said and what its workers held.

python record.py NAME...     (without a name it lists them)
"""

import json
from pathlib import Path

import pools
from live import hosts, run
from live.model import tiny_llama
from live.record import main
from live.record import record as keep

LAB = Path(__file__).resolve().parent
CAPTURES = LAB / "captures"
WHAT = {
    "tp1": "one rank: the whole model",
    "tp2": "two ranks, 4 KV heads: the KV cache is split and its capacity doubles",
    "tp2-replicated-kv": "two ranks, 1 KV head: K and V are held twice and capacity does not grow",
    "tp2-tied": "two ranks, the output matrix is the embedding",
    "tp2-vocab-500": "two ranks, a vocabulary of 500 padded to 512",
    "tp2-engine": "LLM(tensor_parallel_size=2): the engine starts its own two workers",
    "pp2": "LLM(pipeline_parallel_size=2): two stages of two layers, activations handed on",
    "pools": "three engines: a request alone, prefilled for another, and decoded by that other",
    "tp1-gpu-8b": "Llama-3.1-8B with random weights on one GPU, which measures its own memory",
    "tp2-two-hosts": "two ranks in two network namespaces, joined by a virtual cable",
}
ORDINARY_ENGINE = ("tp2-engine", "pp2")  # live.engine; the others are ranks of live.rank
OF_AN_8B = LAB / "configs" / "llama-3.1-8b.json"
ON_A_GPU = {"load_format": "dummy", "kv_cache_memory_bytes": None, "gpu_memory_utilization": 0.92}
ON_A_GPU |= {"max_model_len": 8192, "max_num_seqs": 256, "max_num_batched_tokens": 8192}
CONFIGS = {
    "tp2-replicated-kv": {"num_key_value_heads": 1},
    "tp2-tied": {"tie_word_embeddings": True},
    "tp2-vocab-500": {"vocab_size": 500},
}


def measure(name, folder):
    """Run vLLM as the capture `name` wants it; returns its report. The logs are in `folder`."""
    if name == "pools":
        return pools.measure(512, folder)
    config = tiny_llama(**CONFIGS.get(name, {}))
    tp_size, pp_size = (1, 2) if name == "pp2" else (1 if name.startswith("tp1") else 2, 1)
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
    elif name == "tp1-gpu-8b":
        report["config"] = config = json.loads(OF_AN_8B.read_text())
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text(json.dumps(config))
        engine = run.engine_arguments(folder / "model", config, tp_size, **ON_A_GPU)
        (ranks,) = run.run_jobs([{"engine": engine}], folder=folder)
    else:
        (ranks,) = run.run_ranks(config, tp_size, folder=folder)
    for rank in ranks:
        for key in ("steps", "steps_together"):
            rank[key] = [run.totals(calls) for calls in rank[key]]
    return report | {"ranks": ranks}


def record(name):
    keep(name, CAPTURES / name, measure, WHAT[name], one_log=name in ORDINARY_ENGINE)


if __name__ == "__main__":
    main(__doc__, WHAT, record)
