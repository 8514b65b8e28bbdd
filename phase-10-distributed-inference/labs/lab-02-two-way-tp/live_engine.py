"""The ordinary vLLM engine with its own worker processes, probed from outside; see two_way.py.

    python live_engine.py job.json

For pipeline parallelism, which the external launcher of live_rank.py does not do, and for whoever
wants `LLM(tensor_parallel_size=2)` as users write it. Writes engine.json beside job.json.
"""

import json
import os
import sys
import time
from pathlib import Path


def main():
    started = time.monotonic()
    from vllm import LLM, SamplingParams

    job = json.loads(Path(sys.argv[1]).read_text())
    llm = LLM(
        model=job["model"],
        tensor_parallel_size=job["tp_size"],
        pipeline_parallel_size=job["pp_size"],
        worker_extension_cls="live_probe.Probe",
        load_format="noting",
        dtype=job["dtype"],
        enforce_eager=True,
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        max_model_len=job["max_model_len"],
        max_num_seqs=4,
        max_num_batched_tokens=64,
        kv_cache_memory_bytes=job["kv_memory_bytes"],
        seed=0,
    )
    ready_s = time.monotonic() - started
    if job["pp_size"] > 1:  # the CPU worker skips its warm-up when eager; this allocates the buffer
        llm.collective_rpc("execute_dummy_batch")  # that the later stages receive into
    reports = llm.collective_rpc("probe_report")
    llm.collective_rpc("probe_count")
    sampling = SamplingParams(
        temperature=0, max_tokens=job["num_tokens"], ignore_eos=True, detokenize=False
    )
    began = time.perf_counter()
    prompt = {"prompt_token_ids": job["prompts"][0]}
    tokens = list(llm.generate([prompt], sampling, use_tqdm=False)[0].outputs[0].token_ids)
    seconds = time.perf_counter() - began
    calls = llm.collective_rpc("probe_calls_so_far")
    for report, made in zip(reports, calls, strict=True):
        report |= {"tokens": tokens, "calls": made}
    cache = llm.llm_engine.vllm_config.cache_config
    result = {
        "ranks": reports,
        "num_steps": job["num_tokens"],  # one prefill, then one decode step per further token
        "times": {"ready_s": ready_s, "generate_s": seconds},
        "tokens_reported": getattr(cache, "kv_cache_size_tokens", None),
    }
    Path(sys.argv[1]).with_name("engine.json").write_text(json.dumps(result))


if __name__ == "__main__":
    # The workers import live_probe by name.
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    sys.path.insert(0, str(Path(__file__).parent))
    main()
